"""Options of npugraph_ex that switch what the engine does by itself."""

from __future__ import annotations

from typing import Any

from gex.options.table import Config

# Passes that look for what users write out and the engine has one op for.
_RECOGNITION = ("recognise-attention", "recognise-norm", "recognise-silu")


def of(config: Config) -> dict[str, Any]:
    """Arguments of `compiled_runner`."""
    disabled = tuple(config.get("disabled_passes", ()))
    if not config.get("pattern_fusion_pass", True):
        disabled += _RECOGNITION
    return {
        "level": config.get("opt_level", 2),
        "disabled_passes": disabled,
        "enabled_passes": config.get("enabled_passes", ()),
        "fast_math": config.get("fast_math", False),
        "prologues": config.get("prologues", True),
        "autotune": config.get("autotune", False),
        "place_cats": config.get("remove_cat_ops", True),
        "overwrite_temps": config.get("inplace_pass", True),
        "write_ties_in_place": config.get("input_inplace_pass", True),
    }
