"""Which versions of PyTorch gex is tested with, and what differs between them."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterable

import torch
from torch._functorch._aot_autograd import runtime_wrappers

TESTED = ("2.11", "2.13")

# By this attribute of a tensor a later graph learns which of its sizes change; it is not guarded.
DYNAMIC_MARK = (
    "_dynamo_propagated_dynamic_indices"
    if hasattr(runtime_wrappers, "mark_dynamo_propagated_dynamic_indices")
    else "_dynamo_weak_dynamic_indices"
)


def mark_dynamic(tensor: torch.Tensor, dims: Iterable[int]) -> None:
    setattr(tensor, DYNAMIC_MARK, {*getattr(tensor, DYNAMIC_MARK, ()), *dims})


def warn_if_untested() -> None:
    _warn_about(torch.__version__)


@functools.cache
def _warn_about(version: str) -> None:
    if ".".join(version.split(".")[:2]) not in TESTED:
        warnings.warn(
            f"gex is tested with PyTorch {' and '.join(TESTED)}; this is {version}", stacklevel=3
        )
