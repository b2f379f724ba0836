"""Which versions of PyTorch gex is tested with."""

from __future__ import annotations

import functools
import warnings

import torch

TESTED = ("2.11", "2.13")


def warn_if_untested() -> None:
    _warn_about(torch.__version__)


@functools.cache
def _warn_about(version: str) -> None:
    if ".".join(version.split(".")[:2]) not in TESTED:
        warnings.warn(
            f"gex is tested with PyTorch {' and '.join(TESTED)}; this is {version}", stacklevel=3
        )
