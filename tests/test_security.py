"""Text stays text: nothing of what a notebook says, whatever its words, runs in a page."""

import numpy as np
import pytest

from normbook.comparison import Comparison
from normbook.figures import Curve, Flow, Plot, draw_curves, draw_flow, draw_sharing
from normbook.quiz import Answer, Quiz, right, wrong
from normbook.scheme import Scheme
from normbook.verdicts import verdicts
from normbook.verify import raises, refute, verify
from normbook.widgets import Explorer, SharedStatistics

PAYLOADS = [
    "</script><script>pwned=1</script>",
    "<!--<script>pwned=1</script>-->",
    "<svg onload=pwned=1></svg>",
    '"><img src=x onerror="pwned=1">',
    "' autofocus onfocus='pwned=1' x='",
    "</title></style></textarea><svg/onload=alert(1)>",
    "`<img src=x onerror=pwned=1>`",
    '<a href="javascript:pwned=1">click</a>',
]


def outputs(text):
    """All that a notebook shows with words of its own, each with these words everywhere."""
    layer = Scheme(text, "n d", stats="n", params="d")
    y = np.ones((1, 1, 2))
    labels = {"x_label": text, "y_label": text}
    comparison = Comparison(text, text, text, 10, 5, 4, 0.1, -0.7, 0.9, text)
    plot = Plot(text, text, text, (Curve([0, 1], [1, 2], text),))

    def fail():
        raise ValueError(text)

    return [
        draw_sharing(layer, x=np.ones((2, 3)), caption=text),
        draw_flow(Flow(text, (text, text)), caption=text),
        draw_curves(plot, caption=text),
        verify((text, text, text), source=text),
        refute((text, text, "another"), source=text),
        raises(ValueError, fail),
        verdicts((text, comparison)),
        Quiz((text, right(text, text), wrong(text, text, see=f"page.html#{text}"))),
        SharedStatistics(np.ones((2, 3)), layer, label=text),
        Explorer(
            y, [0, 1], parameters={text: [text]}, curves=[text], title=text, band=text,
            low=y, high=y, **labels,
        ),
    ]  # fmt: skip


@pytest.mark.parametrize("text", PAYLOADS)
def test_outputs_run_nothing(visit, tmp_path, text):
    page = "".join(output._repr_html_() for output in outputs(text))
    path = tmp_path / "page.html"
    path.write_text(f"<!doctype html><title>Outputs</title>{page}", encoding="utf8")
    opened = visit(path)
    dialogs = []
    opened.page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    opened.page.reload()  # with an ear for dialogs
    for link in opened.page.locator("a:visible").all():
        link.click()
    opened.page.evaluate("new Promise((done) => setTimeout(done, 50))")  # for images to fail
    assert opened.page.evaluate("window.pwned") is None
    assert dialogs == []
    # The words are there, as words, and made no element.
    assert opened.page.locator("script, img, [onload], [onerror], [onfocus]").count() == 0
    assert text.strip("`") in opened.page.locator("body").text_content()


@pytest.mark.parametrize(
    "see", ["javascript:alert(1)", "JavaScript:x", "data:text/html,x", "\tx:y"]
)
def test_a_quiz_links_to_no_code(see):
    with pytest.raises(ValueError, match="expected a page of the book"):
        Answer("text", "why", see=see)
