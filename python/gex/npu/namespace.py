"""Modules made in memory with helpful errors for unknown names."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import ModuleType
from typing import Any


class Namespace(ModuleType):
    """A module with the given names; any other is an AttributeError that suggests a name."""

    def __init__(self, name: str, names: Mapping[str, Any], doc: str = "") -> None:
        super().__init__(name, doc)
        self.__dict__.update(names)

    def __getattr__(self, name: str) -> Any:
        message = f"module {self.__name__!r} has no attribute {name!r} under gex.npu"
        if name.startswith("__"):
            raise AttributeError(message, name=name, obj=self)
        known = sorted(key for key in self.__dict__ if not key.startswith("_"))
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise AttributeError(f"{message}{hint} It has: {', '.join(known)}", name=name, obj=self)
