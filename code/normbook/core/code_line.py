"""The line of numpy, and of PyTorch, that computes what a scheme describes.

A line computes the normalized ``x``, without gamma and beta; ``mask`` is the mask where there is
one. `Scheme.numpy` and `Scheme.pytorch` are what a reader calls.
"""

from math import prod

_NUMPY = {
    "module": "np",
    "mean": "{x}.mean({over}, keepdims=True{where})",
    "var": "{x}.var({over}, keepdims=True{where})",
    "where": ", where=m",
}
_TORCH = {
    "module": "torch",
    "mean": "{x}.mean({over}, keepdim=True)",
    "var": "{x}.var({over}, correction=0, keepdim=True)",
}
_TORCH_MASKED = {
    "module": "torch",
    "mean": "torch.masked.mean({x}, {over}, keepdim=True{where})",
    "var": "torch.masked.var({x}, {over}, unbiased=False, keepdim=True{where})",
    "where": ", mask=m",
}


def numpy_line(scheme, shape: tuple[int, ...], eps: float, masked: bool) -> str:
    """The line of numpy for an input of this shape."""
    return _formula(scheme, shape, eps, masked, _NUMPY)


def pytorch_line(scheme, shape: tuple[int, ...], eps: float, masked: bool) -> str:
    """The line of PyTorch: its own layer where it has one, which none with a mask is."""
    if masked or not scheme.torch:
        return _formula(scheme, shape, eps, masked, _TORCH_MASKED if masked else _TORCH)
    lengths = scheme.on(shape).lengths
    for token in scheme.tokens:  # {gk} is the length of the axis that "(g k)" splits
        axes = token.strip("()").split()
        lengths["".join(axes)] = prod(lengths[axis] for axis in axes)
    return scheme.torch.format(eps="" if eps == scheme.torch_eps else f", eps={eps}", **lengths)


def _formula(scheme, shape, eps, masked, dialect):
    lengths = scheme.on(shape).lengths
    over = scheme.averaged_positions
    is_split = len(scheme.axes) > len(scheme.tokens)
    x, first = "x", "x"
    if is_split:
        split = f"reshape({', '.join(str(lengths[axis]) for axis in scheme.axes)})"
        x, first = "s", f"(s := x.{split})"

    def average(what, cells):
        where = dialect["where"] if masked else ""
        axes = over[0] if len(over) == 1 else over
        return dialect[what].format(x=cells, over=axes, where=where)

    if not over:  # torch reads an empty tuple as all axes: write the one-cell average out
        top, bottom = (f"({first} - {x})", f"0 * {x}") if scheme.centered else (first, f"{x}**2")
    elif scheme.centered:
        top, bottom = f"({first} - {average('mean', x)})", average("var", x)
    else:
        top, bottom = first, average("mean", f"({x}**2)")
    line = f"{top} / {dialect['module']}.sqrt({bottom} + {eps})"
    if masked:
        indexed = scheme.mask or scheme.cells
        mask = f"mask[{', '.join(':' if axis in indexed else 'None' for axis in scheme.axes)}]"
        if "None" not in mask:
            mask = f"mask.{split}" if is_split else "mask"
        line = f"{dialect['module']}.where(m := {mask}, {line}, 0)"
    return f"({line}).reshape(x.shape)" if is_split else line
