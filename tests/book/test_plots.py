"""The plots of the chapters in a browser: they follow the theme, and can be read on a phone."""

import pytest

from helpers import PAGES

pytestmark = pytest.mark.slow

READ = """() => {
    for (const section of document.querySelectorAll("article section"))
        section.style.contentVisibility = "visible";
    const plots = [...document.querySelectorAll("svg.nb-plot")];
    return plots.filter(svg => svg.checkVisibility()).map(svg => {
        const outer = svg.getBoundingClientRect();
        const scale = outer.width / svg.viewBox.baseVal.width;
        return {
            name: svg.getAttribute("aria-label"),
            inPage: outer.left >= 0 && outer.right <= innerWidth,
            scale,
            texts: [...svg.querySelectorAll("text")].map(text => {
                const box = text.getBoundingClientRect(), style = getComputedStyle(text);
                return {
                    text: text.textContent,
                    box: [box.left, box.top, box.right, box.bottom],
                    inside: box.left >= outer.left - 1 && box.right <= outer.right + 1 &&
                        box.top >= outer.top - 2 && box.bottom <= outer.bottom + 2,
                    size: parseFloat(style.fontSize) * scale,
                    color: style.fill,
                    around: getComputedStyle(svg.parentElement).color,
                };
            }),
        };
    });
}"""


def read(visit, path, **options):
    return visit(path, **options).page.evaluate(READ)


@pytest.fixture(scope="module")
def with_plots(book):
    pages = [book / f"{page}.html" for page in PAGES]
    found = [page for page in pages if 'class="nb-plot"' in page.read_text(encoding="utf8")]
    assert len(found) > 5
    return found


def test_labels_have_the_color_of_the_page_in_both_modes(visit, with_plots):
    colors = []
    for mode in ("light", "dark"):
        plots = read(visit, with_plots[0], color_scheme=mode)
        texts = [text for plot in plots for text in plot["texts"]]
        assert texts and all(text["color"] == text["around"] for text in texts)
        colors.append({text["color"] for text in texts})
    assert [len(found) for found in colors] == [1, 1] and colors[0] != colors[1]


def overlap(a, b):
    """Whether two boxes share more than a hair: left, top, right, bottom."""
    return min(a[2], b[2]) - max(a[0], b[0]) > 0.5 and min(a[3], b[3]) - max(a[1], b[1]) > 4


@pytest.mark.parametrize("width", [360, 1280])
def test_every_label_can_be_read(visit, with_plots, width):
    count = 0
    for page in with_plots:
        for plot in read(visit, page, width=width):
            assert plot["inPage"], (page.name, plot["name"])
            texts = plot["texts"]
            assert texts
            for text in texts:
                where = page.name, plot["name"], text["text"]
                assert text["size"] >= 11, where
                assert text["inside"], where
            for i, text in enumerate(texts):
                for other in texts[:i]:
                    assert not overlap(text["box"], other["box"]), (
                        page.name, plot["name"], text["text"], other["text"]
                    )  # fmt: skip
            count += 1
    assert count > 20
