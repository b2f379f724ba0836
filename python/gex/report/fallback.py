"""The warning about graphs that run through PyTorch."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections import Counter
from types import FrameType

import torch

from gex.errors import FallbackWarning
from gex.report.graph_report import GraphReport

# Files whose frames are not user code.
_NOT_OF_USER = (
    os.path.dirname(torch.__file__) + os.sep,
    os.path.dirname(os.path.dirname(__file__)) + os.sep,
    contextlib.__file__,
)
_MOST_CALLS = 1 / 5  # of a graph's ops, without a warning
_SHOWN = 3  # kinds of calls


def warn_if_any(report: GraphReport) -> None:
    """Warns (FallbackWarning) if a whole graph, or more than a fifth of its ops, runs through
    PyTorch."""
    text = _text(report)
    if text is not None:
        where = "" if report.origin is None else f" of {report.origin.text()}"
        warnings.warn(
            f"gex: {report.name}{where}: {text}. gex.explain(fn) shows every graph and its calls",
            FallbackWarning,
            stacklevel=_level_of_user(),
        )


def _level_of_user() -> int:
    """How many frames above the caller of this function the user's code is."""
    level = 0
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_NOT_OF_USER):
        level, frame = level + 1, frame.f_back
    return level + 1


def _text(report: GraphReport) -> str | None:
    if report.eager_reason is not None:
        if report.eager_asked_for:
            return None
        return f"runs through PyTorch as a whole: {report.eager_reason}"
    calls = [call for call in report.calls if call.is_fallback]
    ops = report.native + report.decomposed + len(report.calls)
    if len(calls) <= _MOST_CALLS * ops:
        return None
    kinds = Counter((call.op, call.reason) for call in calls).most_common()
    shown = [f"{op} x{count} ({reason})" for (op, reason), count in kinds[:_SHOWN]]
    more = f" and {len(kinds) - _SHOWN} more" if len(kinds) > _SHOWN else ""
    return f"{len(calls)} of {ops} ops run through PyTorch: {'; '.join(shown)}{more}"
