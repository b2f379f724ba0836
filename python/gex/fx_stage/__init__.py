"""FX stages between AOTAutograd and the importer, in which users may change an ATen graph."""

from gex.fx_stage.observation import (
    ALL_PASSES,
    AOT_GRAPH,
    Observer,
    Subject,
    add_observer,
    observe,
)
from gex.fx_stage.pipeline import STAGES, Stage, any_wanted, run

__all__ = [
    "ALL_PASSES",
    "AOT_GRAPH",
    "STAGES",
    "Observer",
    "Stage",
    "Subject",
    "add_observer",
    "any_wanted",
    "observe",
    "run",
]
