"""Options of the backends: one table for each backend, checked before anything is compiled.

A compile gets its own `Config`; options of one compile never reach another.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gex.options import super_kernel
from gex.options.engine_options import ENGINE_OPTIONS, EngineOption
from gex.options.gears import check_gears
from gex.options.shape_handling import check_hooks, parse_configs

_INT64_MAX = 2**63 - 1
_MISSING = object()


@dataclass(frozen=True)
class Option:
    """One row of an option table: its default and how a value is checked and normalised."""

    name: str
    default: Any
    check: Callable[[str, Any], Any]


def _not_in_list(name: str, value: Any, allowed: list[Any]) -> ValueError:
    kind = type(allowed[0])
    return ValueError(
        f"option {name!r}: {value!r} (type: {type(value)}) not in optional list {allowed} "
        f"(type: {kind})"
    )


def _check_bool(name: str, value: Any) -> bool:
    if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise _not_in_list(name, value, [True, False])


def _check_enum(*allowed: str) -> Callable[[str, Any], str]:
    def check(name: str, value: Any) -> str:
        if isinstance(value, str) and value in allowed:
            return value
        raise _not_in_list(name, value, list(allowed))

    return check


def _check_int(low: int, high: int) -> Callable[[str, Any], int]:
    def check(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"option {name!r} must be an int, got {value!r} of {type(value)}")
        if not low <= value <= high:
            raise ValueError(f"option {name!r} must lie in [{low}, {high}], got {value}")
        return value

    return check


def _check_type(what: str, accepts: Callable[[Any], bool]) -> Callable[[str, Any], Any]:
    def check(name: str, value: Any) -> Any:
        if value is None or accepts(value):
            return value
        raise TypeError(f"option {name!r} must be {what}, got {value!r} of {type(value)}")

    return check


def _check_directory(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"option {name!r} must be a str, got {value!r} of {type(value)}")
    if not os.path.isdir(value):
        raise FileNotFoundError(f"option {name!r}: {value!r} is not an existing directory")
    return value


def _check_text(name: str, value: Any) -> str:
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    raise TypeError(f"option {name!r} must be a str, got {value!r} of {type(value)}")


def _is_pool_handle(value: Any) -> bool:
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and all(isinstance(v, int) and not isinstance(v, bool) for v in value)
        and 0 in value
    )


def _is_int_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(v, int) for v in value)


def _check_names(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value):
        return tuple(value)
    raise TypeError(f"option {name!r} must be a list of str, got {value!r} of {type(value)}")


_callable = _check_type("a callable or None", callable)


def _table(*options: Option) -> dict[str, Option]:
    return {option.name: option for option in options}


def _flag(name: str, default: bool) -> Option:
    return Option(name, default, _check_bool)


def _engine_option(row: EngineOption, name: str, *, inverted: bool = False) -> Option:
    """An option of the engine, under a backend's name for it."""
    if row.type == "bool":
        return _flag(name, bool(row.default) != inverted)
    if row.type == "int":
        return Option(name, row.default, _check_int(row.lowest, row.highest))
    if row.type == "names":
        return Option(name, (), _check_names)
    return Option(name, row.default, _check_text)


_ENGINE_OF_GEX = tuple(_engine_option(r, r.torch_name) for r in ENGINE_OPTIONS if r.torch_name)
_ENGINE_OF_NPUGRAPH_EX = tuple(
    _engine_option(r, r.npugraph_ex_name, inverted=r.npugraph_ex_is_inverted)
    for r in ENGINE_OPTIONS
    if r.npugraph_ex_name
)

_CAPTURE_LIMIT = Option("capture_limit", 64, _check_int(1, _INT64_MAX))
# Upper bounds of sizes that one capture serves, and whether other sizes are rejected.
_GEARS = (Option("gears", "auto", check_gears), _flag("gears_only", False))
_STRICT = _flag("strict", False)
# Reading a result after the next call is an error, as if captures overwrote results.
_STRICT_OUTPUTS = _flag("strict_outputs", False)
# Eager's random numbers, or ones drawn inside kernels.
_RANDOM = Option("random", "eager", _check_enum("eager", "fast"))
# Blocks that a model repeats many times are traced once; see docs/first_call.md.
_REGIONS = _flag("regions", True)
# How far a graph is compiled: all the way, or only to where the reference executor can run it.
_EXECUTOR = Option("executor", "compiled", _check_enum("compiled", "interpreter"))

# Every node's tensors as files, and which graph's; see gex/debug.
_DEBUGGING = (
    _flag("dump_tensor_data", False),
    Option("data_dump_stage", "optimized", _check_enum("original", "optimized")),
    Option("data_dump_dir", "./", _check_directory),
    _flag("data_dump_by_step", False),
    _flag("detect_nan", False),
)

# Sizes that change from call to call are symbols from the first call on.
_SHAPE_HANDLING = (
    _flag("enable_shape_handling", False),
    Option("shape_handling_configs", None, lambda _, configs: parse_configs(configs)),
    Option("shape_handling_dict", None, check_hooks),
)

NPUGRAPH_EX_OPTIONS = _table(
    *_ENGINE_OF_NPUGRAPH_EX,
    *_SHAPE_HANDLING,
    _flag("force_eager", False),
    _flag("force_recapture", False),
    Option(
        "use_graph_pool",
        None,
        _check_type("a graph pool handle (2 ints, one of them 0) or None", _is_pool_handle),
    ),
    _flag("reuse_graph_pool_in_same_fx", True),
    _CAPTURE_LIMIT,
    *_GEARS,
    _flag("clone_input", True),
    _flag("clone_output", False),
    _flag("frozen_parameter", False),
    _flag("remove_noop_ops", True),
    _flag("pattern_fusion_pass", True),
    Option("post_grad_custom_pre_pass", None, _callable),
    Option("post_grad_custom_post_pass", None, _callable),
    *_DEBUGGING,
    Option(
        "super_kernel_optimize_options",
        None,
        super_kernel.check_options(super_kernel.OPTIMIZE_OPTIONS),
    ),
    Option(
        "super_kernel_debug_options",
        None,
        super_kernel.check_options(super_kernel.DEBUG_OPTIONS),
    ),
    _flag("deadlock_check", False),
    Option("capture_error_mode", "global", _check_enum("global", "thread_local", "relaxed")),
    Option("mode", "npugraph_ex", _check_enum("npugraph_ex")),
    Option("_vllm_aclnn_static_kernel_sym_index", 0, _check_int(0, _INT64_MAX)),
    Option(
        "_vllm_aclnn_static_kernel_sym_range",
        None,
        _check_type("a list or tuple of int or None", _is_int_list),
    ),
    _STRICT,
    _STRICT_OUTPUTS,
    _RANDOM,
    _REGIONS,
)

GEX_OPTIONS = _table(
    *_ENGINE_OF_GEX,
    # Other backends' options for replaying with one call, which gex always does.
    _flag("triton.cudagraphs", True),
    *_SHAPE_HANDLING,
    # Writes each graph at each stage to a folder of torch_compile_debug.
    _flag("trace.enabled", False),
    *_DEBUGGING,
    _CAPTURE_LIMIT,
    *_GEARS,
    _STRICT,
    _STRICT_OUTPUTS,
    _RANDOM,
    _REGIONS,
    _EXECUTOR,
    _flag("force_eager", False),
    _flag("frozen_parameter", False),
)

NPUGRAPHS_OPTIONS = _table(*_SHAPE_HANDLING, _STRICT_OUTPUTS)

# torch.compile itself reads these and leaves them in the dict.
_CONSUMED_BY_TORCH = ("guard_filter_fn",)


class OptionValue:
    """An option as custom passes see it: `.value`, and true or false as the value is."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __bool__(self) -> bool:
        return bool(self.value)

    def __repr__(self) -> str:
        return f"OptionValue({self.value!r})"


class Config:
    """The checked options of one compile."""

    _table: Mapping[str, Option]
    _values: dict[str, OptionValue]

    def __init__(self, table: Mapping[str, Option], options: Mapping[str, Any] | None = None):
        object.__setattr__(self, "_table", table)
        object.__setattr__(
            self, "_values", {name: OptionValue(option.default) for name, option in table.items()}
        )
        for name, value in (options or {}).items():
            if not isinstance(name, str):
                raise TypeError(f"names of options are strings, got {name!r} of {type(name)}")
            if name not in _CONSUMED_BY_TORCH:
                setattr(self, name, value)
        if "use_graph_pool" in table and self.get("use_graph_pool") is not None:
            self._values["reuse_graph_pool_in_same_fx"].value = False

    def __getattr__(self, name: str) -> OptionValue:
        values = object.__getattribute__(self, "_values")
        if name in values:
            return values[name]
        raise AttributeError(name)

    def __setattr__(self, name: str, value: Any) -> None:
        option = self._table.get(name)
        if option is None:
            supported = sorted(self._table)
            close = difflib.get_close_matches(name, supported, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else "."
            raise ValueError(f"unknown option {name!r}{hint} Supported: {supported}")
        if isinstance(value, OptionValue):
            value = value.value
        self._values[name].value = option.check(name, value)

    def get(self, name: str, default: Any = _MISSING) -> Any:
        """The plain value; `default` where this backend has no such option."""
        if name in self._values or default is _MISSING:
            return self._values[name].value
        return default

    def changed(self) -> dict[str, Any]:
        """The options that differ from their defaults."""
        return {
            name: self.get(name)
            for name, option in self._table.items()
            if self.get(name) != option.default
        }

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.changed().items())
        return f"{type(self).__name__}({given})"


class CompilerConfig(Config):
    """The options of npugraph_ex, each an attribute; set before compiling."""

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(NPUGRAPH_EX_OPTIONS, options)
