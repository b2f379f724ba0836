"""User-defined passes, applied to every graph that is compiled afterwards.

    from gex import passes

    @passes.register_fusion_pass("add-zero", stage=passes.PassStage.EARLY)
    class AddZero(passes.PatternPass):
        @passes.pattern
        def add_zero(self, inputs):
            return inputs[0] + 0.0

        def replacement(self, inputs):
            return inputs[0]

Patterns and replacements are built with `gex.es`. Pass files are loaded by `load()` or listed in
GEX_PASS_PATH. See docs/passes.md.
"""

from gex.pass_files import PassLoadError, load, load_environment
from gex.passes.kinds import DecomposePass, GraphEditor, GraphPass, Match, PatternPass, pattern
from gex.passes.registry import (
    PassStage,
    clear_registered_passes,
    get_registered_passes,
    register_decompose_pass,
    register_fusion_pass,
    register_graph_pass,
    unregister,
)
from gex.passes.values import attr, constant, op, operands, uses

__all__ = [
    "DecomposePass",
    "GraphEditor",
    "GraphPass",
    "Match",
    "PassLoadError",
    "PassStage",
    "PatternPass",
    "attr",
    "clear_registered_passes",
    "constant",
    "get_registered_passes",
    "load",
    "load_environment",
    "op",
    "operands",
    "pattern",
    "register_decompose_pass",
    "register_fusion_pass",
    "register_graph_pass",
    "unregister",
    "uses",
]
