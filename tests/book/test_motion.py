"""Readers who ask their system for less motion see none that they haven't asked for."""

import pytest

from helpers import wait_for_widgets

# What starts to move: transitions and animations of the style sheets, and of scripts.
NOTE = """window.moved = [];
for (const kind of ["transitionrun", "animationstart"])
    addEventListener(kind, ({ target, propertyName }) =>
        moved.push(`${kind} ${propertyName} ${target.getAttribute("class")}`), true);"""
SMOOTH = """[...document.querySelectorAll("*")].filter(
    (e) => getComputedStyle(e).scrollBehavior === "smooth").map((e) => e.localName)"""


def use(page):
    """Do what might move something: on the page, around it, and with its widgets."""
    page.keyboard.press("Tab")  # to the link that skips what surrounds the text
    page.locator("article summary").first.click()
    page.locator(".theme-switch").click()
    page.locator(".ss-prompt").first.click()  # cells that changed flash
    page.locator(".ss [role=gridcell]").nth(1).hover()
    page.set_viewport_size({"width": 640, "height": 800})
    page.locator("[popovertarget=chapters]").click()
    page.keyboard.press("Escape")
    page.wait_for_timeout(300)  # ms, as long as most take
    return page.evaluate("[...moved, ...document.getAnimations().map(String)]")


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_nothing_moves_by_itself(motion, book, visit):
    page = visit(book / "chapters" / "index.html").page
    page.emulate_media(reduced_motion=motion)
    page.evaluate(f"() => {{ {NOTE} }}")
    wait_for_widgets(page)
    moved = use(page)
    if motion == "reduce":
        assert moved == []
        assert page.evaluate(SMOOTH) == []
    else:  # else the test would prove nothing
        assert {"ss-flashing"} <= {word for line in moved for word in line.split()}
