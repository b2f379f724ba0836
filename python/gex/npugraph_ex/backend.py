"""A backend for torch.compile made from a configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from gex.npugraph_ex.fx_compiler import changed_options
from gex.options.table import CompilerConfig


def get_npu_backend(
    *,
    compiler_config: CompilerConfig | None = None,
    custom_decompositions: Mapping[Any, Callable[..., Any]] | None = None,
) -> Callable[..., Any]:
    """Backend npugraph_ex with the current options of the configuration.

    `custom_decompositions`: by operator, what AOTAutograd traces in its place.
    """
    return backend_with(changed_options(compiler_config), custom_decompositions or {})


def backend_with(
    options: Mapping[str, Any], custom_decompositions: Mapping[Any, Callable[..., Any]]
) -> Callable[..., Any]:
    decompositions = dict(custom_decompositions)

    def npu_backend(
        gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **ignored: Any
    ) -> Callable[..., Any]:
        from gex.dynamo.backends import compile_dynamo_graph

        return compile_dynamo_graph(
            "npugraph_ex",
            CompilerConfig(options),
            gm,
            example_inputs,
            decompositions=decompositions,
        )

    return npu_backend
