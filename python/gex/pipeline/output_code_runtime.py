"""Functions used by the script `output_code.py` of a debug folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from gex.options.table import GEX_OPTIONS, NPUGRAPH_EX_OPTIONS, Config
from gex.pipeline.compiler import graph_compiler
from gex.pipeline.job import CompileRequest


def strided(size: list[int], stride: list[int], dtype: torch.dtype) -> torch.Tensor:
    """Random values with these strides."""
    extent = sum((n - 1) * step for n, step in zip(size, stride)) + 1 if 0 not in size else 0
    if dtype.is_floating_point or dtype.is_complex:
        memory = torch.randn(extent, dtype=torch.complex64 if dtype.is_complex else None).to(dtype)
    else:
        memory = torch.randint(0, 2, (extent,)).to(dtype)
    return memory.as_strided(size, stride)


def compiled(
    module: torch.nn.Module, arguments: list[Any], backend: str, options: Mapping[str, Any]
) -> Any:
    """The graph of the module, compiled for such arguments; takes a list of them."""
    table = NPUGRAPH_EX_OPTIONS if backend == "npugraph_ex" else GEX_OPTIONS
    gm = make_fx(module, tracing_mode="fake")(*arguments)
    return graph_compiler(CompileRequest(backend, Config(table, options)))(gm, arguments)


def describe(result: Any) -> str:
    if not isinstance(result, torch.Tensor):
        return repr(result)
    return f"{str(result.dtype).removeprefix('torch.')}{list(result.shape)}"
