"""How repeatable results must be.

0: as PyTorch is set. 1: the same input gives the same bits. 2: and a row's bits do not depend on
where it stands. 3: nor on how many rows there are. Kernels of gex meet 1 and 2 by themselves; at 3
products of few rows take the way of those with many. Calls through PyTorch run under PyTorch's own
switch from 1 on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

LEVELS = (0, 1, 2, 3)
ANY_BATCH = 3
level = 0  # says something only while PyTorch's own switch is on; guards of graphs read it


def check_level(wanted: Any) -> int:
    if isinstance(wanted, bool) or not isinstance(wanted, int):
        raise TypeError(f"a deterministic level is an int, got {wanted!r} of {type(wanted)}")
    if wanted not in LEVELS:
        raise ValueError(f"deterministic level {wanted}: must be one of {list(LEVELS)}")
    return wanted


def set_deterministic_level(wanted: int) -> None:
    """For the process. Operators of PyTorch that can't be repeatable warn and run."""
    global level
    level = check_level(wanted)
    torch.use_deterministic_algorithms(level > 0, warn_only=True)


def get_deterministic_level() -> int:
    return max(level, 1) if torch.are_deterministic_algorithms_enabled() else 0


@contextlib.contextmanager
def repeatable_algorithms() -> Iterator[None]:
    """Has PyTorch compute what is the same in each run."""
    if torch.are_deterministic_algorithms_enabled():
        yield
        return
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def guard_level() -> None:
    """Has Dynamo compile anew for another level. Whether there is one at all it guards itself."""
    from gex.compat.tracing import guard_attribute, is_tracing

    if is_tracing() and torch.are_deterministic_algorithms_enabled():
        guard_attribute("gex", "determinism", "level")
