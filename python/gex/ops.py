"""Operators for use inside models: `gex.ops.print`, `gex.ops.save`."""

from __future__ import annotations

from gex.fx_stage.effect_ops import print, print_npugraph_tensor, save_npugraph_tensor

save = save_npugraph_tensor

__all__ = ["print", "print_npugraph_tensor", "save", "save_npugraph_tensor"]
