import re

import nbformat
import pytest

from helpers import CHAPTERS, NOTEBOOKS
from normbook.page.quiz import Quiz, right, wrong
from tensors import WITH_TASK, play, shown_tensors

QUIZ = Quiz(
    (
        "Is `1 < 2`?",
        wrong("no", "Count.", "numbers.ipynb#order"),
        right("yes & <b>", "It is."),
    )
)


def test_what_is_written_stays_text():
    text = QUIZ._repr_html_()
    assert "<code>1 &lt; 2</code>" in text
    assert "yes &amp; &lt;b&gt;" in text


def test_wrong_answers_say_where_to_read_on():
    assert '<a href="numbers.ipynb#order">' in QUIZ._repr_html_()


def test_without_a_browser():
    assert repr(QUIZ) == "Is `1 < 2`?\n  ( ) no\n  ( ) yes & <b>"


@pytest.mark.parametrize("answers", [[], [right("a", "b")], [wrong("a", "b", "c")] * 2])
def test_a_question_without_a_choice_is_refused(answers):
    with pytest.raises(ValueError, match=r"'Why\?' has . right answers of"):
        Quiz(("Why?", *answers))


def test_answers_exclude_each_other_within_a_question_only():
    another = ("Another?", *QUIZ.questions[0][1:])
    names = re.findall(r'name="([\w-]+)"', Quiz(*QUIZ.questions, another)._repr_html_())
    assert len(names) == 4
    assert names[0] == names[1] != names[2] == names[3]


def open_quiz(visit, tmp_path, **options):
    html = f"<!doctype html><title>quiz</title><main><h1>Quiz</h1>{QUIZ._repr_html_()}</main>"
    (tmp_path / "quiz.html").write_text(html, encoding="utf8")
    return visit(tmp_path / "quiz.html", **options).page


def test_choosing_answers_at_once(visit, tmp_path):
    page = open_quiz(visit, tmp_path)
    said = page.locator("[role=status] p:visible")
    assert said.count() == 0
    page.get_by_label("no").check()
    assert said.all_inner_texts() == ["✗ No. Count. Read on."]
    page.get_by_label("yes").check()
    assert said.all_inner_texts() == ["✓ Yes. It is."]


def test_by_keyboard(visit, tmp_path):
    page = open_quiz(visit, tmp_path)
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert page.locator("p:visible").all_inner_texts() == ["✗ No. Count. Read on."]
    page.keyboard.press("ArrowDown")
    assert page.locator("p:visible").all_inner_texts() == ["✓ Yes. It is."]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_chapter_has_questions(path):
    """And so has every other page that tells its readers to check themselves."""
    cells = {cell.id: cell.source for cell in nbformat.read(path, 4).cells}
    sources = [source for name, source in cells.items() if name.endswith("-quiz-questions")]
    if path.stem in CHAPTERS or "## Check yourself" in "\n".join(cells.values()):
        (source,) = sources
        assert 4 <= len(re.findall(r"^\s+right\(", source, re.MULTILINE)) <= 6


def test_links_in_the_book_lead_to_pages(book):
    linking = 0
    for page in (book / "chapters").glob("*.html"):
        text = page.read_text(encoding="utf8")
        assert not re.search(r'<div class="nb-quiz">.*href="\w+\.ipynb#', text), page.name
        linking += len(re.findall(r'href="\w+\.html#[^"]+">Read on', text))
    assert linking > 50


def test_in_the_book(book, visit):
    page = visit(book / "chapters" / "batch_norm.html", width=360, color_scheme="dark").page
    quiz = page.locator(".nb-quiz")
    quiz.get_by_label("256").check()
    link = quiz.get_by_role("link")
    assert link.evaluate("a => getComputedStyle(a).display") != "none"
    link.click()
    assert page.evaluate("document.querySelector(':target') !== null")


@pytest.mark.parametrize("name", WITH_TASK)
def test_tasks_are_fulfilled(name, executions, book, visit):
    page = visit(book / "chapters" / f"{name}.html").page
    tensors = [tensor for tensor in shown_tensors(executions[name]) if tensor.state["goal"]]
    assert tensors
    for i, tensor in enumerate(tensors):
        shown = page.locator(".ss", has=page.locator(".ss-task")).nth(i)
        done = shown.locator(".ss-task", has_text="That’s it.")
        for action, target, *typed in play(tensor):
            done.wait_for(state="hidden")
            if action == "tick":
                shown.get_by_role("checkbox", name=re.compile(rf"^{target}\b")).click()
            elif action == "choose":
                layers = shown.get_by_role("group", name=tensor.state["words"]["layer"])
                layers.get_by_role("button").nth(target).click()
            else:
                shown.locator("[role=gridcell]").nth(target).focus()
                page.keyboard.type(str(*typed))
                page.keyboard.press("Enter")
        done.wait_for()


def test_every_task_is_looked_for(executions):
    shown = {
        name
        for name, execution in executions.items()
        if any(tensor.state["goal"] for tensor in shown_tensors(execution))
    }
    assert shown == set(WITH_TASK)
