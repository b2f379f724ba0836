"""Deterministic levels.

0: PyTorch's setting. 1: the same input gives the same bits. 2: also, the bits of a row do not
depend on its position. 3: nor on the number of rows. gex's kernels always satisfy 1 and 2; at level
3 matmuls with few rows use the algorithm for many rows. From level 1 on, calls through PyTorch run
with PyTorch's own deterministic switch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

LEVELS = (0, 1, 2, 3)
ANY_BATCH = 3
level = 0  # effective only while PyTorch's own switch is on; guards of graphs read it


def check_level(wanted: Any) -> int:
    if isinstance(wanted, bool) or not isinstance(wanted, int):
        raise TypeError(f"a deterministic level is an int, got {wanted!r} of {type(wanted)}")
    if wanted not in LEVELS:
        raise ValueError(f"deterministic level {wanted}: must be one of {list(LEVELS)}")
    return wanted


def set_deterministic_level(wanted: int) -> None:
    """For the process. PyTorch operators without a deterministic form warn and run."""
    global level
    level = check_level(wanted)
    torch.use_deterministic_algorithms(level > 0, warn_only=True)


def get_deterministic_level() -> int:
    return max(level, 1) if torch.are_deterministic_algorithms_enabled() else 0


@contextlib.contextmanager
def repeatable_algorithms() -> Iterator[None]:
    """Makes PyTorch use deterministic algorithms."""
    if torch.are_deterministic_algorithms_enabled():
        yield
        return
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def guard_level() -> None:
    """Makes Dynamo recompile when the level changes. Dynamo itself guards PyTorch's own switch."""
    from gex.compat.tracing import guard_attribute, is_tracing

    if is_tracing() and torch.are_deterministic_algorithms_enabled():
        guard_attribute("gex", "determinism", "level")
