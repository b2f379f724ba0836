"""torchair.CompilerConfig: groups of options, checked when they are assigned."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator
from typing import Any

from gex.options.table import OptionValue

Check = Callable[[Any], bool]


class Setting:
    """One option: its default, its allowed values, and the npugraph_ex option that it sets."""

    def __init__(
        self, default: Any, allowed: list[Any] | str, check: Check | None = None, sets: str = ""
    ) -> None:
        self.default = default
        self.allowed = allowed
        self.sets = sets
        self._check = check

    def accepts(self, value: Any) -> bool:
        if self._check is not None:
            return value is None or self._check(value)
        return any(value == a and type(value) is type(a) for a in self.allowed)


def _flag(default: bool, sets: str = "") -> Setting:
    return Setting(default, [True, False], sets=sets)


def _one_of(default: Any, *values: Any) -> Setting:
    return Setting(default, [default, *values])


def _text() -> Setting:
    return Setting(None, "a str", lambda v: isinstance(v, str))


def _number() -> Setting:
    return Setting(None, "an int", lambda v: isinstance(v, int) and not isinstance(v, bool))


def _function(sets: str) -> Setting:
    return Setting(None, "a callable", callable, sets)


def _folder() -> Setting:
    return Setting(None, "an existing folder", lambda v: isinstance(v, str) and os.path.isdir(v))


# As in torchair. For options that affect how a graph runs here, `sets` names ours.
_LAYOUT: dict[str, Any] = {
    "mode": _one_of("max-autotune", "reduce-overhead", "npugraph_ex"),
    "debug": {
        "run_eagerly": _flag(False, sets="force_eager"),
        "deadlock_check": _flag(False, sets="deadlock_check"),
        "graph_dump": {
            "type": _one_of(None, "txt", "pbtxt", "py"),
            "path": _folder(),
        },
        "data_dump": {"type": _one_of(None, "npy")},
        "fx_summary": {"type": _one_of(None, "csv"), "skip_compile": _flag(True)},
        "aclgraph": {"clone_input": _flag(True, sets="clone_input")},
    },
    "dump_config": {
        "enable_dump": _flag(False),
        "dump_path": _folder(),
        "dump_mode": _one_of("all", "input", "output"),
        "dump_step": _text(),
        "dump_layer": _text(),
        "dump_data": _one_of("tensor", "stats"),
        "data_dump_stage": _one_of("optimized", "original"),
        "quant_dumpable": _flag(False),
    },
    "fusion_config": {"fusion_switch_file": _text()},
    "inference_config": {"dynamic_gears_merge_policy": _one_of("zip", "product")},
    "ge_config": {
        "enable_single_stream": _flag(False),
        "oo_level": _one_of("O3", "O1"),
        "oo_constant_folding": _one_of(None, True, False),
        "oo_dead_code_elimination": _one_of(None, True, False),
        "export_compile_stat": _one_of(None, "0", "1", "2"),
        "aicore_num": _text(),
        "optimization_switch": _text(),
    },
    "experimental_config": {
        "frozen_parameter": _flag(False, sets="frozen_parameter"),
        "keep_inference_input_mutations": _flag(True),
        "memory_efficiency": _flag(False),
        "topology_sorting_strategy": _one_of("DFS", "BFS", "RDFS", "StableRDFS"),
        "enable_view_optimize": _flag(True),
        "enable_ref_data": _flag(False),
        "remove_noop_ops": _flag(True, sets="remove_noop_ops"),
        "pattern_fusion_pass": _flag(True, sets="pattern_fusion_pass"),
        "jit_compile": _one_of("auto"),
        "static_model_ops_lower_limit": _number(),
        "tiling_schedule_optimize": _flag(False),
        "cc_parallel_enable": _flag(False),
    },
    "post_grad_custom_pre_pass": _function("post_grad_custom_pre_pass"),
    "post_grad_custom_post_pass": _function("post_grad_custom_post_pass"),
}


class Group:
    """Options and further groups as attributes."""

    def __init__(self, name: str, layout: dict[str, Any]) -> None:
        entries: dict[str, Any] = {}
        for key, entry in layout.items():
            path = f"{name}.{key}"
            entries[key] = (
                Group(path, entry) if isinstance(entry, dict) else OptionValue(entry.default)
            )
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_layout", layout)
        object.__setattr__(self, "_entries", entries)

    def __getattr__(self, key: str) -> Any:
        if key.startswith("__"):
            raise AttributeError(key)
        return self._entries[self._known(key, AttributeError)]

    def __setattr__(self, key: str, value: Any) -> None:
        setting = self._layout[self._known(key, ValueError)]
        path = f"{self._name}.{key}"
        if isinstance(setting, dict):
            raise ValueError(f"{path} is a group; set one of {sorted(setting)} in it")
        if not setting.accepts(value):
            allowed = setting.allowed
            wanted = allowed if isinstance(allowed, str) else f"one of {allowed}"
            raise ValueError(f"{path} must be {wanted}, got {value!r} of {type(value)}")
        self._entries[key].value = value

    def _known(self, key: str, error: type[Exception]) -> str:
        if key in self._entries:
            return key
        close = difflib.get_close_matches(key, self._entries, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise error(f"{self._name} has no option {key!r}{hint} It has: {sorted(self._entries)}")

    def settings(self) -> Iterator[tuple[str, Setting, Any]]:
        """Path, setting and value of every option, including nested groups."""
        for key, entry in self._entries.items():
            if isinstance(entry, Group):
                yield from entry.settings()
            else:
                yield f"{self._name}.{key}", self._layout[key], entry.value


class CompilerConfig(Group):
    def __init__(self) -> None:
        super().__init__("config", _LAYOUT)
