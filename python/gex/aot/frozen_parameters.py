"""Frozen parameters: which arguments are bound once, and how to bind them again."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from gex.compat.tracing import forward_metadata
from gex.report.graph_report import GraphReport

_runners: weakref.WeakSet[Any] = weakref.WeakSet()


def static_arguments(names: Sequence[str]) -> list[tuple[int, str]]:
    """Positions and names of the arguments that AOTAutograd (currently compiling) treats as static.

    `names`: the user's names of the arguments of the whole graph, if known.
    """
    metadata = forward_metadata()
    if metadata is None:
        return []
    positions = metadata.static_input_indices
    return [(i, names[i] if i < len(names) else f"argument {i}") for i in positions]


def remember(runner: Any) -> None:
    """Registers the runner for refresh()."""
    _runners.add(runner)


def refresh(fn: Callable[..., Any] | None = None) -> int:
    """Makes graphs compiled with `frozen_parameter` read their parameters again at the next call.

    Call it after parameters were changed. `fn`: the module (compiled or not) with these parameters,
    or the result of `gex.compile`; without it, or for a plain function, every graph reads its
    parameters again. Returns the number of affected graphs.
    """
    of_export = getattr(fn, "report", None)
    if isinstance(of_export, GraphReport) and of_export.runner is not None:
        of_export.runner.refresh()
        return 1
    module = getattr(fn, "_orig_mod", fn)
    mine: set[int] | None = None
    if isinstance(module, torch.nn.Module):
        mine = {id(t) for t in (*module.parameters(), *module.buffers())}
    found = 0
    for runner in list(_runners):
        tensors = runner.frozen_tensors
        if tensors and (mine is None or any(id(t) in mine for t in tensors)):
            runner.refresh()
            found += 1
    return found
