"""Groups of equal blocks that are nested compile regions, and their fallback."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

from gex.compat.tracing import RestartTrace

GROUP = "__gex_region_group__"  # attribute of functions that are our regions


@dataclass(eq=False)
class Group:
    """Equal blocks of a model, by name."""

    class_name: str
    blocks: dict[str, nn.Module]
    reason: str | None = None  # why they are not regions

    def restore_forward(self) -> None:
        for block in self.blocks.values():
            restore_forward(block)


# What Dynamo traces instead of the forward of a block, for blocks that are not modified.
traced_forwards: dict[nn.Module, Callable[..., Any]] = {}


def is_region(block: nn.Module) -> bool:
    return block in traced_forwards or hasattr(vars(block).get("forward"), GROUP)


def restore_forward(block: nn.Module) -> None:
    """Restores the original forward of a block that is a region."""
    if traced_forwards.pop(block, None) is None and is_region(block):
        del block.forward


# --- when a block can't be a region ---------------------------------------------------------

_ongoing = threading.local()  # .fallbacks: of this thread's current compile


def fall_back(group: Group, reason: str) -> None:
    group.reason = reason
    group.restore_forward()
    _ongoing.fallbacks = [*getattr(_ongoing, "fallbacks", []), f"{group.class_name}: {reason}"]


def take_fallbacks() -> list[str]:
    """Descriptions of the fallbacks of this thread since the last call."""
    taken = getattr(_ongoing, "fallbacks", [])
    _ongoing.fallbacks = []
    return taken


_start_over: Callable[[Exception], None] | None = None


def on_failure(start_over: Callable[[Exception], None]) -> None:
    """`start_over` makes Dynamo trace without the regions of the current trace, if it has any."""
    global _start_over
    _start_over = start_over


def trace_without_regions(problem: Exception) -> None:
    """Makes Dynamo restart if our regions may be the reason for a failure in a later stage."""
    if _start_over is not None:
        _start_over(problem)


@contextlib.contextmanager
def without_regions_if_that_fails() -> Iterator[None]:
    """Context for AOTAutograd and the backend: a failure with regions is retried without them."""
    try:
        yield
    except RestartTrace:
        raise
    except Exception as problem:
        trace_without_regions(problem)
        raise
