"""Blocks inside a compiled function with a core limit or a deterministic level."""

from __future__ import annotations

from typing import Any

import torch
from torch.compiler import is_dynamo_compiling
from torch.fx.experimental.symbolic_shapes import guard_scalar

from gex import core_limits, determinism
from gex.fx_stage import scope_ops
from gex.fx_stage.mark_ops import new_number
from gex.npu import streams

__all__ = ["deterministic", "limit_core_num"]

_marks = torch.ops.npugraph_ex


def _text(number: Any) -> str:
    """The text of a number that Dynamo may treat as dynamic: specialises the graph for it."""
    return str(guard_scalar(number))


class limit_core_num:
    """`with limit_core_num(4, 8):` limits the cores used by the block.

    In a compiled function this applies to each step of the block, also on streams switched to
    inside; with `stream` only to steps on that stream. Outside it limits the current stream (or
    `stream`) for the compiled functions called in the block; eager operators keep PyTorch's
    threads.
    """

    def __init__(self, op_aicore_num: int, op_vectorcore_num: int, stream: Any = None) -> None:
        # While Dynamo traces, the compiler checks the numbers: an error raised here would only be a
        # graph break.
        self._cores = (op_aicore_num, op_vectorcore_num)
        self._stream = stream
        self._before: dict[str, int] = {}
        if not is_dynamo_compiling():
            core_limits.check(op_aicore_num, op_vectorcore_num)

    def __enter__(self) -> None:
        if is_dynamo_compiling():
            keys = [scope_ops.AICORES, scope_ops.VECTORCORES, scope_ops.NUMBER]
            values = [_text(self._cores[0]), _text(self._cores[1]), str(new_number())]
            if self._stream is not None:
                keys.append(scope_ops.LIMITED_STREAM)
                values.append(streams.name_in_marks(self._stream))
            _marks.scope_enter(keys, values)
        else:
            self._stream = streams.current_stream() if self._stream is None else self._stream
            self._before = core_limits.get_stream_limit(self._stream)
            core_limits.set_stream_limit(self._stream, *self._cores)

    def __exit__(self, *error: Any) -> None:
        if is_dynamo_compiling():
            _marks.scope_leave(new_number())
        else:
            core_limits.set_stream_limit(self._stream, *self._before.values())


class deterministic:
    """`with deterministic(1):` makes the block deterministic.

    See gex.determinism for the levels. Outside of a compiled function this sets the process's level
    for the block.
    """

    def __init__(self, level: int) -> None:
        self._level = level
        self._before = (False, False, 0)
        if not is_dynamo_compiling():
            determinism.check_level(level)

    def __enter__(self) -> None:
        if is_dynamo_compiling():
            keys = [scope_ops.LEVEL, scope_ops.NUMBER]
            _marks.scope_enter(keys, [_text(self._level), str(new_number())])
        else:
            self._before = (
                torch.are_deterministic_algorithms_enabled(),
                torch.is_deterministic_algorithms_warn_only_enabled(),
                determinism.level,
            )
            determinism.set_deterministic_level(self._level)

    def __exit__(self, *error: Any) -> None:
        if is_dynamo_compiling():
            _marks.scope_leave(new_number())
        else:
            enabled, warn_only, determinism.level = self._before
            torch.use_deterministic_algorithms(enabled, warn_only=warn_only)
