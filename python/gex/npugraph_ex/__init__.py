"""The API of npugraph_ex; with the npu shim also as torch.npu.npugraph_ex."""

from gex.debug.effect_ops import print_npugraph_tensor, save_npugraph_tensor
from gex.debug.logs import logger
from gex.fx_stage.replacements import register_replacement
from gex.npugraph_ex import inference
from gex.npugraph_ex.backend import get_npu_backend
from gex.npugraph_ex.fx_compiler import CompiledFx, compile_fx, get_compiler
from gex.npugraph_ex.super_kernel import super_kernel_scope_begin, super_kernel_scope_end
from gex.options import CompilerConfig

__all__ = [
    "CompiledFx",
    "CompilerConfig",
    "compile_fx",
    "get_compiler",
    "get_npu_backend",
    "inference",
    "logger",
    "print_npugraph_tensor",
    "register_replacement",
    "save_npugraph_tensor",
    "super_kernel_scope_begin",
    "super_kernel_scope_end",
]
