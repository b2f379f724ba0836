"""The option `strict_outputs`: results become invalid at the next call, as if captures reused their
memory.

gex never overwrites the results of an earlier call. This mode checks programs that will run on
systems that do: the next call of a compiled function, or `mark_step_begin()`, invalidates the
results of earlier calls, and reading such a result is an error that names the line that made it.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Collection
from types import FrameType
from typing import Any

import torch

from gex.compat import dynamo

_PACKAGES = tuple(os.path.dirname(sys.modules[name].__file__ or "") for name in ("torch", "gex"))
_MADE_AT = "_gex_made_at"
_steps = 0
# Results that may still be read, with the generation that made them.
_live: list[tuple[tuple[int, int], weakref.ref[torch.Tensor]]] = []


def mark_step_begin() -> None:
    """Results of earlier calls are no longer needed."""
    global _steps
    _steps += 1
    _end_before(_generation())


class EndedResult(torch.Tensor):
    """Replaces a result whose generation has ended."""

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in _ABOUT_TENSORS:
            return super().__torch_function__(func, types, args, kwargs)
        ended = next(x for x in (*args, *(kwargs or {}).values()) if isinstance(x, EndedResult))
        raise RuntimeError(
            f"a result of the compiled call at {vars(ended)[_MADE_AT]} is read after a later call "
            "began: clone() it before, or call mark_step_begin() only after the last use of the "
            "results (option strict_outputs)"
        )


_ABOUT_TENSORS = {
    getattr(torch.Tensor, name).__get__
    for name in ("device", "dtype", "is_leaf", "layout", "ndim", "requires_grad", "shape")
}


def with_expiring_outputs(call: Callable[..., Any]) -> Callable[..., Any]:
    """Keeps results that wait for a backward, and results in memory of an argument."""

    def call_and_note(*arguments: Any) -> Any:
        now = _generation()
        outside = {_memory(x) for x in arguments if isinstance(x, torch.Tensor)}
        _end_before(now, outside)
        results = call(*arguments)
        line = _line_of_user()
        for result in results:
            if not isinstance(result, torch.Tensor) or result.requires_grad:
                continue
            if _memory(result) not in outside:
                setattr(result, _MADE_AT, line)
                _live.append((now, weakref.ref(result)))
        return results

    return call_and_note


def _generation() -> tuple[int, int]:
    """Graphs of one call, with graph breaks between them, are one generation."""
    return _steps, dynamo.call_generation()


def _end_before(now: tuple[int, int], used: Collection[int] = ()) -> None:
    """Arguments of the new generation stay valid."""
    held = [(generation, reference()) for generation, reference in _live]
    _live.clear()
    for generation, result in held:
        if result is None:
            continue
        if generation == now or _memory(result) in used:
            _live.append((now, weakref.ref(result)))
        else:
            result.__class__ = EndedResult


def _line_of_user() -> str:
    """Where the compiled function was called: the frame outside Dynamo's wrapper."""
    frame: FrameType | None = sys._getframe(1)
    is_called = False
    while frame is not None:
        file = frame.f_code.co_filename
        is_called = is_called or (
            file == dynamo.CALL_FILE and frame.f_code.co_name == dynamo.CALL_FUNCTION
        )
        if is_called and not file.startswith((*_PACKAGES, "<")):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return "an unknown line"


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata
