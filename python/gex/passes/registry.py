"""Registration of passes by name."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from gex._gex import passes as _passes
from gex.passes.kinds import DecomposePass, GraphPass, PatternPass

Class = TypeVar("Class", bound=type)


class PassStage:
    """When a pass runs: before gex's passes, after its first cleanup, or after composite ops are
    expanded. The other names are GE's."""

    EARLY = "early"
    MIDDLE = "middle"
    LATE = "late"
    BEFORE_INFER_SHAPE = "BEFORE_INFER_SHAPE"
    AFTER_INFER_SHAPE = "AFTER_INFER_SHAPE"
    AFTER_BUILTIN_FUSION_PASS = "AFTER_BUILTIN_FUSION_PASS"
    AFTER_ORIGIN_GRAPH_OPTIMIZE = "AFTER_ORIGIN_GRAPH_OPTIMIZE"


_registered: dict[str, Any] = {}


def _register(
    name: str, stage: str, level: int, version: str, kind: type, register: Callable[..., None]
) -> Callable[[Class], Class]:
    def decorate(cls: Class) -> Class:
        if not issubclass(cls, kind):
            raise TypeError(f"pass {name!r}: {cls.__name__} does not derive from {kind.__name__}")
        instance = cls()
        summary = (cls.__doc__ or "").strip().split("\n")[0]
        register(instance, _passes.Description(name, stage, summary, level, version))
        _registered[name] = instance
        return cls

    return decorate


def register_fusion_pass(
    name: str, stage: str = PassStage.EARLY, *, level: int = 2, version: str = ""
) -> Callable[[Class], Class]:
    """Creates one instance of the decorated class and registers it. Names must be unique.

    `version`: must change whenever the behaviour of the pass changes. With it the compile cache
    stores programs that the pass changed, without it it does not.
    """
    return _register(name, stage, level, version, PatternPass, lambda p, d: p._register(d))


def register_decompose_pass(
    name: str,
    stage: str = PassStage.EARLY,
    op_types: Sequence[str] = (),
    *,
    level: int = 2,
    version: str = "",
) -> Callable[[Class], Class]:
    return _register(
        name, stage, level, version, DecomposePass, lambda p, d: p._register(d, op_types)
    )


def register_graph_pass(
    name: str, stage: str = PassStage.EARLY, *, level: int = 2, version: str = ""
) -> Callable[[Class], Class]:
    return _register(name, stage, level, version, GraphPass, lambda p, d: p._register(d))


def unregister(name: str) -> None:
    _passes.unregister(name)
    del _registered[name]


def get_registered_passes() -> list[str]:
    """Names of passes that were registered from Python, in order."""
    return list(_registered)


def clear_registered_passes() -> None:
    for name in get_registered_passes():
        unregister(name)


# Their functions must not outlive the interpreter.
atexit.register(clear_registered_passes)
