"""The options of one compile in the form that the engine takes."""

from __future__ import annotations

from collections.abc import Sequence

from torch.fx import Graph

from gex import _gex
from gex.captures.gears import ladders
from gex.options.table import Config


def settings_of(
    config: Config, graph: Graph | None = None, names: Sequence[str] = ()
) -> _gex.CaptureOptions:
    """`graph` and the names of its inputs determine which sizes the gears apply to."""
    gears = config.get("gears", None)
    listed = isinstance(gears, dict)
    pool = config.get("use_graph_pool", None)
    return _gex.CaptureOptions(
        gears="listed" if listed else gears or "exact",
        ladders=ladders(gears, graph, names) if listed and graph is not None else [],
        gears_only=config.get("gears_only", False),
        force_recapture=config.get("force_recapture", False),
        # Nothing in an arena outlives a call, so a requested pool can be shared by all captures.
        share_arena=pool is not None or config.get("reuse_graph_pool_in_same_fx", True),
        pool=pool,
    )
