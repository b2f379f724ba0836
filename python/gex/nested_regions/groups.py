"""Groups of like blocks that are nested compile regions, and what happens when they can't be."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

from gex.compat.tracing import RestartTrace

GROUP = "__gex_region_group__"  # attribute of functions that are regions of ours


@dataclass(eq=False)
class Group:
    """Like blocks of a model, by name."""

    class_name: str
    blocks: dict[str, nn.Module]
    reason: str | None = None  # why they are no regions after all

    def restore_forward(self) -> None:
        for block in self.blocks.values():
            restore_forward(block)


# What Dynamo traces instead of the forward of a block, for blocks that keep theirs.
traced_forwards: dict[nn.Module, Callable[..., Any]] = {}


def is_region(block: nn.Module) -> bool:
    return block in traced_forwards or hasattr(vars(block).get("forward"), GROUP)


def restore_forward(block: nn.Module) -> None:
    """Gives a block its own forward back if it is a region."""
    if traced_forwards.pop(block, None) is None and is_region(block):
        del block.forward


# --- when a block can't be a region ---------------------------------------------------------

_ongoing = threading.local()  # .fallbacks: of the compile that this thread is at


def fall_back(group: Group, reason: str) -> None:
    group.reason = reason
    group.restore_forward()
    _ongoing.fallbacks = [*getattr(_ongoing, "fallbacks", []), f"{group.class_name}: {reason}"]


def take_fallbacks() -> list[str]:
    """What fell back since this was last asked in this thread, in words."""
    taken = getattr(_ongoing, "fallbacks", [])
    _ongoing.fallbacks = []
    return taken


_start_over: Callable[[Exception], None] | None = None


def on_failure(start_over: Callable[[Exception], None]) -> None:
    """`start_over` has Dynamo trace without the regions of the trace at hand, if it has such."""
    global _start_over
    _start_over = start_over


def trace_without_regions(problem: Exception) -> None:
    """Has Dynamo start over if regions of ours may be what a later stage could not cope with."""
    if _start_over is not None:
        _start_over(problem)


@contextlib.contextmanager
def without_regions_if_that_fails() -> Iterator[None]:
    """Around what AOTAutograd and the backend do: what fails with regions is tried without."""
    try:
        yield
    except RestartTrace:
        raise
    except Exception as problem:
        trace_without_regions(problem)
        raise
