"""The engine's own options, read from its table (include/gex/options.def)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gex import _gex

EngineValue = bool | int | str | list[str] | tuple[str, ...]


@dataclass(frozen=True)
class EngineOption:
    """One row of the table; a name is "" if that backend has no such option."""

    name: str
    part: str  # compile, session or api
    type: str  # bool, int, str or names
    default: EngineValue
    help: str
    key: str  # value, apart or none: how the cache key of a program depends on it
    key_reason: str
    lowest: int
    highest: int
    flag: str  # of the command
    environment: str
    torch_name: str  # as backend `gex` calls it
    torch_instead: str  # what determines it there, if it has no name
    npugraph_ex_name: str
    npugraph_ex_is_inverted: bool


ENGINE_OPTIONS = tuple(EngineOption(**row) for row in _gex.option_table())


def text_of(value: Any) -> str:
    """A value as the engine reads it from texts."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(str(v) for v in value)
    return str(value)


def named_texts(options: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, text_of(value)) for name, value in options.items()]


def set_options(
    options: _gex.RunnerOptions, values: Iterable[tuple[EngineOption, EngineValue]]
) -> None:
    for row, value in values:
        setattr(options, row.name, list(value) if isinstance(value, tuple) else value)
