"""Pages without a mouse: where the Tab key leads, and what is seen of it."""

import pytest

from helpers import PATIENCE, wait_for_widgets

# What the page offers to the Tab key is noted, and how it looks. Then `step` tells what is wrong
# with the element that has the focus: null, if nothing is, and "" behind the last one.
WATCH = """() => {
    const offered = () => [...document.querySelectorAll(
        "a[href], button, input, select, textarea, summary, [tabindex]")].filter(isStop);
    const isStop = (e) => e.tabIndex >= 0 && !e.disabled
        && e.checkVisibility({ visibilityProperty: true }) && (e.type !== "radio" || isChoice(e));
    const isChoice = (e) => {
        const all = [...document.getElementsByName(e.name)];
        return e === (all.find((one) => one.checked) ?? all[0]);
    };
    // An outline or a shadow, of itself or of the box around it.
    const rings = (e) => [e, e.parentElement].map((box) => {
        const { outlineStyle, outlineWidth, outlineColor, boxShadow } = getComputedStyle(box);
        const outlined = outlineStyle !== "none" && outlineWidth !== "0px";
        return [outlined && [outlineStyle, outlineWidth, outlineColor], boxShadow];
    }).join();
    const name = (e) => `<${e.localName} class="${e.className}"> ${e.textContent.slice(0, 30)}`;
    const header = document.querySelector(".bar");
    const before = new Map(offered().map((e) => [e, rings(e)]));
    const visited = new Set();

    const isUnder = (box, e) => {
        const x = (Math.max(box.left, 0) + Math.min(box.right, innerWidth)) / 2;
        const y = (Math.max(box.top, 0) + Math.min(box.bottom, innerHeight)) / 2;
        const hit = document.elementFromPoint(x, y);
        return !(hit && (e.contains(hit) || hit.contains(e) || [...e.labels ?? []].includes(hit)));
    };
    let first, last;
    window.step = (backward) => {
        const e = document.activeElement;
        if (e === document.body || e === first) return "";
        const wrong = [];
        if (!isStop(e)) wrong.push("is no stop");
        const follows = Node[`DOCUMENT_POSITION_${backward ? "PRECEDING" : "FOLLOWING"}`];
        if (last && !(last.compareDocumentPosition(e) & follows)) wrong.push("is out of order");
        const box = e.getBoundingClientRect(), [line] = e.getClientRects();
        const inText = e.closest("article"), old = last?.getBoundingClientRect();
        if (!backward && inText && last?.closest("article")
            && box.bottom < old.top && box.left < old.right) wrong.push("goes up");
        const top = inText ? header.getBoundingClientRect().bottom : 0;
        const isIn = box.top > top - 1 && box.bottom < innerHeight + 1;
        if (!isIn && box.height < innerHeight - top) wrong.push("isn't in view");
        if (box.left < -1 || box.right > innerWidth + 1) wrong.push("is cut off");
        if (isUnder(line, e)) wrong.push("is under something");
        if (before.get(e) === rings(e)) wrong.push("looks as before");
        first ??= e;
        visited.add(last = e);
        return wrong.length ? `${name(e)} ${wrong.join(", ")}` : null;
    };
    // Those of the table of contents that unfold only for some part of the page don't count.
    window.missed = () => {
        const now = new Set(offered());
        return [...before.keys()].filter((e) => now.has(e) && !visited.has(e)).map(name);
    };
}"""


def walk(page, key):
    """Press the key until the focus leaves the page; returns what is wrong with its stops."""
    page.evaluate(WATCH)
    wrong, stops = [], 0
    while stops < 1000:  # in a trap it would go on
        page.keyboard.press(key)
        found = page.evaluate("backward => step(backward)", key == "Shift+Tab")
        if found == "":
            return wrong + [f"{name} is never reached" for name in page.evaluate("missed()")]
        stops += 1
        wrong += [found] if found else []
    return [*wrong, "there is no end"]


def open_still(visit, file, *args, **options):
    page = visit(file, *args, **options).page
    page.emulate_media(reduced_motion="reduce")
    page.set_default_timeout(1000 * PATIENCE)
    wait_for_widgets(page)
    return page


def to_the_top(page):
    """Let the next Tab start at the top, wherever the page itself has put the focus."""
    while not page.evaluate("document.activeElement === document.body"):
        page.keyboard.press("Shift+Tab")


@pytest.mark.parametrize(
    ("name", "width", "color_scheme"),
    [
        ("chapters/rnn", 1280, "light"),
        ("chapters/index", 360, "dark"),
        ("chapters/api_layers", 1280, "dark"),
        ("search", 1280, "dark"),
    ],
)
def test_tab_leads_through_the_page(name, width, color_scheme, book, visit):
    page = open_still(visit, book / f"{name}.html", width, color_scheme)
    to_the_top(page)
    assert walk(page, "Tab") == []


def test_tab_leads_back(book, visit):
    page = open_still(visit, book / "chapters" / "formula_sheet.html", 640)
    page.locator(":is(a, button)").last.focus()
    assert [w for w in walk(page, "Shift+Tab") if "never" not in w] == []


def test_the_first_stop_leads_to_the_text(book, visit):
    page = open_still(visit, book / "chapters" / "index.html")
    page.keyboard.press("Tab")
    assert page.locator(":focus").inner_text() == "Skip to main content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('[role=main]') !== null")


def test_no_stop_hides_under_the_header(book, visit):
    page = open_still(visit, book / "chapters" / "index.html")
    page.evaluate(
        """() => {
            const [before, after] = document.querySelectorAll("article li a");
            scrollBy({ top: before.getBoundingClientRect().top - 5, behavior: "instant" });
            after.focus({ preventScroll: true });
        }"""
    )
    page.keyboard.press("Shift+Tab")
    link, header = page.locator("article li a").first, page.locator(".bar")
    assert link.evaluate("(e) => e === document.activeElement")
    assert link.bounding_box()["y"] >= header.bounding_box()["height"]


@pytest.mark.parametrize("name", ["chapters", "on-this-page"])
def test_a_list_of_links_gives_the_focus_back(name, book, visit):
    page = open_still(visit, book / "chapters" / "index.html", 640)
    button = page.locator(f".bar [popovertarget={name}]")
    button.focus()
    page.keyboard.press("Enter")
    page.locator(f"#{name}:popover-open").wait_for()
    page.keyboard.press("Tab")
    assert page.locator(f"#{name} :focus").count() == 1
    page.keyboard.press("Escape")
    page.locator(f"#{name}:popover-open").wait_for(state="detached")
    assert button.evaluate("(e) => e === document.activeElement")


def test_a_link_in_a_list_leads_to_the_text(book, visit):
    page = open_still(visit, book / "chapters" / "index.html", 640)
    page.locator(".bar [popovertarget=on-this-page]").focus()
    page.keyboard.press("Enter")
    page.locator("#on-this-page:popover-open").wait_for()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.locator("#on-this-page:popover-open").wait_for(state="detached")
    page.keyboard.press("Tab")
    after = "(e) => document.querySelector(':target').compareDocumentPosition(e) & 4"
    assert page.locator(":focus").evaluate(after)  # DOCUMENT_POSITION_FOLLOWING


# Formulas that need no scrolling are no stops, and those that do are.
RIGHT_STOPS = """[...document.querySelectorAll("div.math")].every(
    (box) => (box.tabIndex >= 0) === (box.scrollWidth > box.clientWidth))"""


def test_stops_at_formulas_that_scroll(book, visit):
    page = open_still(visit, book / "chapters" / "batch_norm.html")
    for width, scrolling in ((1280, 0), (320, 2)):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_function(RIGHT_STOPS)
        assert page.locator("div.math[tabindex='0']").count() >= scrolling
