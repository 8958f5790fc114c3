"""Drawings of computations: steps from top to bottom, and what jumps over some of them."""

import html
from dataclasses import dataclass

from normbook.page.figures.figure import PALETTE, Figure

STEP_WIDTH, STEP_HEIGHT, STEP_GAP, JUMP = 114, 30, 20, 22  # px; a jump's distance to the steps


@dataclass(frozen=True)
class Flow:
    """The steps of a computation, in order.

    Attributes
    ----------
    title
        what it is called.
    steps
        their names.
    jumps
        pairs of positions in `steps`: the output of the first also goes into the second. Ahead,
        as a residual connection does, or back, as a recurrence does into the next time step.

    Examples
    --------
    >>> Flow("post-LN", ("x", "f", "+", "LN"), jumps=((0, 2),)).steps[2]
    '+'
    """

    title: str
    steps: tuple[str, ...]
    jumps: tuple[tuple[int, int], ...] = ()


def draw_flow(*flows: Flow, caption: str, highlight: str = "LN") -> Figure:
    """Draw computations side by side, each from top to bottom; steps named `highlight` in color.

    Jumps ahead are solid, jumps back into the next time step dashed.

    Raises
    ------
    ValueError
        a jump goes to a step that isn't there, or to itself.

    Examples
    --------
    >>> pre = Flow("pre-LN", ("x", "LN", "f", "+"), jumps=((0, 3),))
    >>> post = Flow("post-LN", ("x", "f", "+", "LN"), jumps=((0, 2),))
    >>> draw_flow(pre, post, caption="Two places for the norm.")
    Figure: Two places for the norm.
    """
    for flow in flows:
        for jump in flow.jumps:
            if not set(jump) <= set(range(len(flow.steps))) or jump[0] == jump[1]:
                raise ValueError(
                    f"{flow.title}: the jump {jump} needs two different positions among "
                    f"{len(flow.steps)} steps, from 0"
                )
    return Figure(tuple(_flow(flow, highlight) for flow in flows), caption)


def _flow(flow, highlight):
    pitch, middle = STEP_HEIGHT + STEP_GAP, STEP_WIDTH / 2
    body, said = [], [" → ".join(flow.steps)]
    for i, step in enumerate(flow.steps):
        y = i * pitch
        fill = f'"{PALETTE[1]}" fill-opacity=".3"' if step == highlight else '"none"'
        body.append(
            f'<rect x="1" y="{y}" width="{STEP_WIDTH - 2}" height="{STEP_HEIGHT}" rx="4" '
            f'fill={fill} stroke="currentColor" stroke-opacity=".5"/>'
            f'<text x="{middle:g}" y="{y + STEP_HEIGHT / 2:g}">{html.escape(step)}</text>'
        )
        if i:
            body.append(_arrow((middle, y - STEP_GAP), (middle, y)))
    for start, end in flow.jumps:
        back = start > end
        # Out a little below the middle of a step and in a little above, so that two don't meet.
        y1, y2 = start * pitch + STEP_HEIGHT / 2 + 6, end * pitch + STEP_HEIGHT / 2 - 6
        right, far = STEP_WIDTH - 1, STEP_WIDTH + JUMP
        body.append(_arrow((right, y1), (far, y1), (far, y2), (right, y2), dashed=back))
        way = "in the next time step" if back else "directly"
        said.append(f"{flow.steps[start]} also goes to {flow.steps[end]} {way}")
    title, alt = html.escape(flow.title), html.escape(f"{flow.title}: {'; '.join(said)}")
    width, height = STEP_WIDTH + JUMP + 1, len(flow.steps) * pitch - STEP_GAP
    return (
        f'<div class="nb-panel" style="min-width: 0"><p><strong>{title}</strong></p>'
        f'<svg role="img" aria-label="{alt}" width="{width}" height="{height + 2}" '
        f'viewBox="0 -1 {width} {height + 2}" font-size="13">{"".join(body)}</svg></div>'
    )


def _arrow(*points, dashed=False):
    """A line through the points; its head points down or left, the ways that arrows end here."""
    (x_before, _), (x, y) = points[-2:]
    head = ((x - 4, y - 6), (x + 4, y - 6)) if x == x_before else ((x + 6, y - 4), (x + 6, y + 4))
    dashes = ' stroke-dasharray="4 3"' if dashed else ""
    return "".join(
        f'<path d="M{"L".join(f"{a:g} {b:g}" for a, b in path)}" fill="none" '
        f'stroke="currentColor"{more}/>'
        for path, more in ((points, dashes), ((head[0], (x, y), head[1]), ""))
    )
