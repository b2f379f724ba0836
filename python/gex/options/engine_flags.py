"""The options of a configuration that the engine takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from gex import _gex
from gex.options.engine_options import ENGINE_OPTIONS, EngineOption, EngineValue, set_options
from gex.options.table import Config

# Passes that recognise compositions for which the engine has one op.
_RECOGNITION = ("recognise-attention", "recognise-norm", "recognise-silu")


def options_of(config: Config) -> _gex.RunnerOptions:
    options = _gex.RunnerOptions()
    set_options(options, _given(config))
    if not config.get("pattern_fusion_pass", True):
        disabled = cast("list[str]", options.disabled_passes)
        options.disabled_passes = [*disabled, *_RECOGNITION]
    return options


def _given(config: Config) -> Iterator[tuple[EngineOption, EngineValue]]:
    """Each under the name that the configuration's backend uses."""
    for row in ENGINE_OPTIONS:
        if row.torch_name and row.torch_name in config:
            yield row, config.get(row.torch_name)
        elif row.npugraph_ex_name and row.npugraph_ex_name in config:
            yield row, config.get(row.npugraph_ex_name) != row.npugraph_ex_is_inverted
