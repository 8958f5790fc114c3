"""What all drawings share: the panels and their caption, the colors and patterns, the style.

They are SVG inside HTML: they follow the light or dark theme of the page they stand on, need no
script, and stay sharp on a phone. A group is told by its color, by its pattern and by its name.
"""

import html
from dataclasses import dataclass

# Okabe & Ito's palette for all kinds of color vision, without its black.
PALETTE = ("#E69F00", "#0072B2", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442")
# A stroke pattern for each color, on a tile of 8 × 8.
PATTERNS = (
    "",
    "M0 8L8 0",
    "M0 0L8 8",
    "M4 0V8",
    "M0 4H8",
    "M0 8L8 0M0 0L8 8",
    "M4 0V8M0 4H8",
)
# The color and pattern of every group, by its number. Groups of one color differ in their pattern,
# until all pairs are used up.
LOOKS = tuple((PALETTE[i % 7], PATTERNS[(i + i // 7) % 7]) for i in range(49))


_STYLE = """
.nb-figure { margin: 1.2em 0 }
.nb-panels { display: flex; flex-wrap: wrap; gap: 1.4em 1.6em; align-items: flex-start }
.nb-panel { min-width: min(290px, 100%); max-width: 100% }
.nb-panel p { margin: 0 0 .3em; font-size: .95em; line-height: 1.35; width: 0; min-width: 100% }
.nb-panel > svg { display: block; max-width: 100%; height: auto; color: inherit }
.nb-panel text { fill: currentColor; font-family: ui-monospace, Menlo, Consolas, monospace;
  text-anchor: middle; dominant-baseline: central }
.nb-panel .nb-label { font: 13px system-ui, sans-serif; text-anchor: start }
.nb-plot text { font-family: system-ui, sans-serif; text-anchor: start; dominant-baseline: auto }
.nb-legend { display: flex; flex-wrap: wrap; gap: .2em 1em; width: 0; min-width: 100%;
  list-style: none; margin: .5em 0 0; padding: 0; font-size: .83em }
.nb-legend li { display: inline-flex; gap: .4em; align-items: center; margin: 0 }
.nb-legend svg { flex: none }
.nb-figure figcaption { margin-top: .7em; font-size: .9em }
"""


@dataclass(frozen=True)
class Figure:
    """Panels side by side, with a caption. Notebooks show it; it follows the theme of the page.

    Examples
    --------
    >>> from normbook.data.examples import THREE_SCALES
    >>> from normbook.core.scheme import LAYER_NORM
    >>> from normbook.page import draw_sharing
    >>> draw_sharing(LAYER_NORM, x=THREE_SCALES.x, caption="By row.")
    Figure: By row.
    """

    panels: tuple[str, ...]
    caption: str

    def _repr_html_(self):
        caption = f"<figcaption>{html.escape(self.caption)}</figcaption>"
        return (
            f'<figure class="nb-figure"><style>{_STYLE}</style>'
            f'<div class="nb-panels">{"".join(self.panels)}</div>{caption}</figure>'
        )

    def __repr__(self):
        return f"Figure: {self.caption}"


def draw_label(x, y, text):
    """The SVG of a text that begins at x and stands in the middle of y."""
    return f'<text class="nb-label" x="{x:g}" y="{y:g}">{html.escape(text)}</text>'
