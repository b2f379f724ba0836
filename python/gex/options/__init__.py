"""The options of every backend: names, types, defaults, checks."""

from gex.options.table import (
    GEX_OPTIONS,
    NPUGRAPH_EX_OPTIONS,
    NPUGRAPHS_OPTIONS,
    CompilerConfig,
    Config,
    Option,
    OptionValue,
)

__all__ = [
    "GEX_OPTIONS",
    "NPUGRAPHS_OPTIONS",
    "NPUGRAPH_EX_OPTIONS",
    "CompilerConfig",
    "Config",
    "Option",
    "OptionValue",
]
