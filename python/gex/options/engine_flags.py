"""The options of a configuration that switch what the engine does by itself."""

from __future__ import annotations

from gex import _gex
from gex.options.table import Config

# Passes that look for what users write out and the engine has one op for.
_RECOGNITION = ("recognise-attention", "recognise-norm", "recognise-silu")


def options_of(config: Config) -> _gex.RunnerOptions:
    disabled = list(config.get("disabled_passes", ()))
    if not config.get("pattern_fusion_pass", True):
        disabled += _RECOGNITION
    options = _gex.RunnerOptions()
    options.level = config.get("opt_level", 2)
    options.disabled_passes = disabled
    options.enabled_passes = list(config.get("enabled_passes", ()))
    options.fast_math = config.get("fast_math", False)
    options.keep_subnormals |= config.get("keep_subnormals", False)
    options.prologues = config.get("prologues", True)
    options.autotune = config.get("autotune", False)
    options.place_cats = config.get("remove_cat_ops", True)
    options.overwrite_temps = config.get("inplace_pass", True)
    options.write_ties_in_place = config.get("input_inplace_pass", True)
    options.reuse_memory = config.get("reuse_memory", True)
    options.keep_static_code = not config.get("disable_static_kernel_compile_cache", False)
    options.static_code_at_once = config.get("static_kernel_compile", False)
    return options
