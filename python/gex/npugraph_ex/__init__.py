"""The API of npugraph_ex; with the npu shim also available as torch.npu.npugraph_ex."""

from gex.captures.ge_gears import dim_gears
from gex.captures.pools import graph_pool_handle, pool_bytes
from gex.captures.strict_outputs import mark_step_begin
from gex.captures.warmup import warmup as precapture
from gex.debug.logs import logger
from gex.fx_stage.effect_ops import print_npugraph_tensor, save_npugraph_tensor
from gex.fx_stage.replacements import register_replacement
from gex.npugraph_ex import inference, scope
from gex.npugraph_ex.backend import get_npu_backend
from gex.npugraph_ex.fx_compiler import CompiledFx, compile_fx, get_compiler
from gex.npugraph_ex.super_kernel import super_kernel_scope_begin, super_kernel_scope_end
from gex.options.table import CompilerConfig
from gex.report.explanation import explain
from gex.shape_handling.transform import NPUShapeHandling
from gex.shape_handling.wrapper import shape_handling

__all__ = [
    "CompiledFx",
    "CompilerConfig",
    "NPUShapeHandling",
    "compile_fx",
    "dim_gears",
    "explain",
    "get_compiler",
    "get_npu_backend",
    "graph_pool_handle",
    "inference",
    "logger",
    "mark_step_begin",
    "pool_bytes",
    "precapture",
    "print_npugraph_tensor",
    "register_replacement",
    "save_npugraph_tensor",
    "scope",
    "shape_handling",
    "super_kernel_scope_begin",
    "super_kernel_scope_end",
]
