"""The options of super kernels, checked.

On CUDA, `super_kernel_optimize` makes sequences of small launches phases of one persistent kernel.
On the CPU kernels are fused when a graph is compiled; captured kernels are not merged further, and
the report of a graph with such options says so.
"""

from __future__ import annotations

import difflib
from typing import Any

NOTHING_MERGED = (
    "super_kernel_optimize: nothing was merged; kernels are fused when the graph is compiled, and "
    "captured ones are not merged further"
)

_BREAKERS = {"event_breaker_bypass": int, "value_breaker_bypass": int, "task_breaker_bypass": int}
OPTIMIZE_OPTIONS: dict[str, Any] = {
    "preload_code": int,
    "split_mode": int,
    "stream_fusion": int,
    "constant_codegen": int,
    "auto_op_parallel": int,
    "early_start": int,
    "opt_extend": str,
    "dcci_before_kernel_start": [str],
    "dcci_after_kernel_end": [str],
    "dcci_disable_on_kernel": [str],
    "ubuf_lock_ignore_kernel": [str],
    "aggressive_opt_strategies": _BREAKERS,
}
DEBUG_OPTIONS: dict[str, Any] = {
    "debug_sync_all": int,
    "debug_op_exec_trace": int,
    "debug_cross_core_sync_check": int,
    "debug_per_op_max_core_num": int,
    "debug_extend": str,
}


def check_options(known: dict[str, Any]) -> Any:
    """A check for an option that is a dict with these keys, or None."""

    def check(option: str, value: Any) -> dict[str, Any] | None:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise TypeError(f"option {option!r} must be a dict or None, got {type(value)}")
        _check_entries(option, known, value)
        return dict(value)

    return check


def _check_entries(where: str, known: dict[str, Any], given: dict[Any, Any]) -> None:
    for key, value in given.items():
        if key not in known:
            close = difflib.get_close_matches(str(key), known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else "."
            raise RuntimeError(f"{where}: unknown key {key!r}{hint} Supported: {sorted(known)}")
        kind = known[key]
        if isinstance(kind, dict):
            _require(where, key, value, dict)
            _check_entries(f"{where}[{key!r}]", kind, value)
        elif isinstance(kind, list):
            _require(where, key, value, list)
            for element in value:
                _require(where, f"{key}[...]", element, kind[0])
        else:
            _require(where, key, value, kind)


def _require(where: str, key: str, value: Any, kind: type) -> None:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise RuntimeError(f"{where}: {key!r} must be of {kind}, got {value!r} of {type(value)}")
