"""gex.warmup: makes captures for given sizes ahead of time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from gex.compat.pytree import tree_flatten, tree_unflatten


def warmup(
    fn: Callable[..., Any],
    *,
    shapes: Sequence[Any],
    example: Sequence[Any] | torch.Tensor | None = None,
    progress: bool | None = None,
) -> list[Any]:
    """Calls a compiled function once for each entry of `shapes`, so that no later call captures.

    An entry is the shape of the first tensor of `example`, or a list with one shape for each of its
    tensors. `example` provides dtypes, the other sizes and arguments; without it inputs are
    float32. Inputs are zeros; gradients are off. `progress` shows a progress bar; the default is on
    for a terminal. Returns the shapes that were run.
    """
    if not callable(fn):
        raise TypeError(f"warmup needs a compiled function or module, got {type(fn)}")
    if isinstance(shapes, torch.Size) or not isinstance(shapes, Sequence) or not shapes:
        raise TypeError(f"shapes must be a list of shapes, got {shapes!r}")
    calls = [_arguments(entry, example) for entry in shapes]
    show = sys.stderr.isatty() if progress is None else progress
    with torch.no_grad():
        for arguments in _with_bar(calls) if show else calls:
            fn(*arguments)
    return [[t.shape for t in tree_flatten(c)[0] if isinstance(t, torch.Tensor)] for c in calls]


def _is_shape(entry: Any) -> bool:
    return isinstance(entry, (tuple, list)) and all(
        isinstance(n, int) and not isinstance(n, bool) for n in entry
    )


def _arguments(entry: Any, example: Sequence[Any] | torch.Tensor | None) -> tuple[Any, ...]:
    if _is_shape(entry):
        entry = [entry]
    if not isinstance(entry, (tuple, list)) or not all(_is_shape(shape) for shape in entry):
        raise TypeError(f"{entry!r} is neither a shape nor a list of shapes")
    if example is None:
        return tuple(torch.zeros(tuple(shape)) for shape in entry)
    leaves, spec = tree_flatten((example,) if isinstance(example, torch.Tensor) else tuple(example))
    tensors = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    if len(entry) > len(tensors):
        raise ValueError(f"{len(entry)} shapes for an example of {len(tensors)} tensors: {entry!r}")
    for k, i in enumerate(tensors):
        shape = tuple(entry[k]) if k < len(entry) else leaves[i].shape
        leaves[i] = torch.zeros(shape, dtype=leaves[i].dtype, device=leaves[i].device)
    return tree_unflatten(leaves, spec)


def _with_bar(calls: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    width = 30
    for done, call in enumerate(calls):
        _draw(done, len(calls), width)
        yield call
    _draw(len(calls), len(calls), width)
    sys.stderr.write("\n")


def _draw(done: int, total: int, width: int) -> None:
    filled = width * done // total
    bar = "#" * filled + "." * (width - filled)
    sys.stderr.write(f"\rcapturing [{bar}] {done}/{total}")
    sys.stderr.flush()
