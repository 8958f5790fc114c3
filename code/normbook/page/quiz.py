"""Questions that answer back, in HTML and CSS alone: in a page as well as in a notebook."""

import hashlib
import html
import re
from dataclasses import dataclass

STYLE = """
.nb-quiz fieldset { border: 0; margin: 0 0 1.5rem; padding: 0; min-width: 0 }
.nb-quiz legend { float: none; font-size: inherit; font-weight: 600; margin: 0 0 .5rem; padding: 0 }
.nb-quiz label { display: flex; gap: .6rem; align-items: baseline; padding: .3rem 0; margin: 0 }
.nb-quiz input { flex: none; accent-color: var(--nb-accent, #0072b2) }
.nb-quiz [role=status] > * { display: none; margin: 0 0 .4rem 1.5rem; padding: .4rem .8rem;
  border-left: .2rem solid var(--nb-accent, #0072b2);
  background: var(--nb-surface, var(--jp-layout-color2, transparent)) }
.nb-quiz label:has(:checked) + [role=status] > * { display: block }
@media print { .nb-quiz [role=status] { display: none } }
"""


@dataclass(frozen=True)
class Answer:
    """One of the answers to choose from.

    Attributes
    ----------
    text
        the answer; ``code`` between backticks.
    why
        what is said when it is chosen.
    see
        where the book explains it, such as ``batch_norm.ipynb#running-statistics``.
    right
        whether it is the right one.

    Raises
    ------
    ValueError
        `see` is neither a page nor a web address, such as a ``javascript:``.

    Examples
    --------
    >>> right("one per token", "μ and σ² are indexed by n and t.").right
    True
    """

    text: str
    why: str
    see: str = ""
    right: bool = False

    def __post_init__(self):
        if not re.match(r"https?://|[\w./-]*(#|$)", self.see):
            raise ValueError(
                f"see is {self.see!r}; expected a page of the book, such as 'rnn.ipynb#padding', "
                "or a web address"
            )


def right(text: str, why: str, see: str = "") -> Answer:
    """The right answer.

    Examples
    --------
    >>> right("2", "One for each sample.")
    Answer(text='2', why='One for each sample.', see='', right=True)
    """
    return Answer(text, why, see, right=True)


def wrong(text: str, why: str, see: str) -> Answer:
    """A wrong answer: one that people give, with the reason against it and where to read on.

    Examples
    --------
    >>> wrong("3", "As batch norm.", see="layer_norm_cnn.ipynb").right
    False
    """
    return Answer(text, why, see)


class Quiz:
    """Questions with answers to choose from, shown in a notebook or a page.

    Choosing one tells at once whether it is right, and why.

    Parameters
    ----------
    questions
        each a question and its answers, ``("Which …?", right(…), wrong(…), …)``.

    Raises
    ------
    ValueError
        a question doesn't have exactly one right answer, or has just one answer.

    Examples
    --------
    >>> Quiz(
    ...     (
    ...         "How many means for 2 samples of 3 channels?",
    ...         right("2", "One for each sample."),
    ...         wrong("3", "As batch norm.", see="layer_norm_cnn.ipynb"),
    ...     )
    ... )
    How many means for 2 samples of 3 channels?
      ( ) 2
      ( ) 3
    """

    def __init__(self, *questions: tuple):
        for question, *answers in questions:
            if sum(answer.right for answer in answers) != 1 or len(answers) < 2:
                raise ValueError(
                    f"{question!r} has {sum(answer.right for answer in answers)} right answers of "
                    f"{len(answers)}; expected one, and at least one wrong"
                )
        self.questions = questions

    def __repr__(self):
        return "\n\n".join(
            "\n".join([question, *(f"  ( ) {answer.text}" for answer in answers)])
            for question, *answers in self.questions
        )

    def _repr_html_(self):
        parts = [f"<style>{STYLE}</style>"]
        for number, (question, *answers) in enumerate(self.questions, 1):
            # Radio buttons of one name exclude each other, also those of other quizzes.
            name = "quiz-" + hashlib.sha256(repr((question, answers)).encode()).hexdigest()[:8]
            rows = "".join(_answer(answer, name) for answer in answers)
            legend = f"<legend>{number}. {_text(question)}</legend>"
            parts.append(f"<fieldset>{legend}{rows}</fieldset>")
        return f'<div class="nb-quiz">{"".join(parts)}</div>'


def _answer(answer, name):
    verdict = "✓ Yes." if answer.right else "✗ No."
    more = f' <a href="{html.escape(answer.see)}">Read on.</a>' if answer.see else ""
    return (
        f'<label><input type="radio" name="{name}"><span>{_text(answer.text)}</span></label>'
        f'<div role="status"><p><b>{verdict}</b> {_text(answer.why)}{more}</p></div>'
    )


def _text(text):
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))
