"""torchair: a compiler configuration and the torch.compile backend made from it."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from gex import collectives
from gex.compat.dynamo import mark_size_dynamic
from gex.npu import torchair_scope
from gex.npu.compiler_config import CompilerConfig
from gex.npu.namespace import Namespace
from gex.npugraph_ex.backend import backend_with
from gex.npugraph_ex.inference import cache_compile, readable_cache

logger = logging.getLogger("torchair")
_MAX_GEARS = 100


def options_of(config: CompilerConfig) -> dict[str, Any]:
    """The options of npugraph_ex that a configuration sets."""
    options: dict[str, Any] = {}
    without_effect = []
    for path, setting, value in config.settings():
        if value == setting.default:
            continue
        if setting.sets:
            options[setting.sets] = value
        elif path != "config.mode":
            without_effect.append(path)
    if without_effect:
        warnings.warn(
            f"no effect under gex.npu: {', '.join(without_effect)}", UserWarning, stacklevel=3
        )
    return options


def get_npu_backend(
    *,
    compiler_config: CompilerConfig | None = None,
    custom_decompositions: Mapping[Any, Callable[..., Any]] | None = None,
) -> Callable[..., Any]:
    """A backend for torch.compile: npugraph_ex with the options of the configuration."""
    if compiler_config is not None and not isinstance(compiler_config, CompilerConfig):
        raise TypeError(
            f"compiler_config must be a torchair.CompilerConfig, got {type(compiler_config)}"
        )
    options = options_of(compiler_config or CompilerConfig())
    return backend_with(options, custom_decompositions or {})


def dynamo_export(
    *args: Any,
    model: torch.nn.Module,
    export_path: str = "export_file",
    export_name: str = "export",
    dynamic: bool = False,
    config: CompilerConfig | None = None,
    **kwargs: Any,
) -> None:
    """Writes the graph of a model for these arguments to the folder `export_path`, which is
    created.

    `<export_name>.gex` is the graph as text, for the gex command; `<export_name>.pt2` has the
    weights as well, for torch.export.load and gex.compile.
    """
    from torch.export import Dim, export, save

    from gex.export.compiled_module import compile

    options_of(config or CompilerConfig())
    shapes = None
    if dynamic:
        shapes = tuple(
            {axis: Dim.AUTO for axis in range(a.dim())} if isinstance(a, torch.Tensor) else None
            for a in args
        )
    with torch.no_grad():
        program = export(model, args, kwargs, dynamic_shapes=shapes)
    folder = Path(export_path)
    folder.mkdir(parents=True, exist_ok=True)
    save(program, folder / f"{export_name}.pt2")
    compiled = compile(program)  # its report does not keep the runner
    (folder / f"{export_name}.gex").write_text(compiled.report.runner.text("graph"))


def patch_for_hcom() -> None:
    """A no-op: collectives of torch.distributed are always traced into graphs here."""
    collectives.install()


def use_internal_format_weight(model: torch.nn.Module) -> None:
    """A no-op: weights keep PyTorch's layout here."""


def set_dim_gears(t: torch.Tensor, dim_gears: Mapping[int, Sequence[int]]) -> None:
    """Marks the dimensions as changing: one compiled graph then serves every size."""
    for dim, gears in dim_gears.items():
        if not -t.dim() <= dim < t.dim():
            raise ValueError(f"set_dim_gears: dimension {dim} of a tensor with {t.dim()}")
        sizes = list(gears)
        if not sizes or len(sizes) > _MAX_GEARS or any(s in (0, 1) for s in sizes):
            raise ValueError(
                f"set_dim_gears: dimension {dim} needs 1 to {_MAX_GEARS} sizes, none of them "
                f"0 or 1; got {sizes}"
            )
        mark_size_dynamic(t, dim % t.dim())


def make_modules() -> dict[str, Namespace]:
    """Every module of the package by its name."""
    config = Namespace("torchair.configs.compiler_config", {"CompilerConfig": CompilerConfig})
    configs = Namespace("torchair.configs", {"compiler_config": config})
    utils = Namespace("torchair.core.utils", {"logger": logger})
    core = Namespace("torchair.core", {"utils": utils})
    inference = Namespace(
        "torchair.inference",
        {
            "cache_compile": cache_compile,
            "readable_cache": readable_cache,
            "set_dim_gears": set_dim_gears,
        },
    )
    scope = Namespace("torchair.scope", torchair_scope.SCOPE)
    ops = Namespace("torchair.ops", torchair_scope.OPS)
    package = Namespace(
        "torchair",
        {
            "CompilerConfig": CompilerConfig,
            "configs": configs,
            "core": core,
            "dynamo_export": dynamo_export,
            "get_npu_backend": get_npu_backend,
            "inference": inference,
            "logger": logger,
            "ops": ops,
            "patch_for_hcom": patch_for_hcom,
            "scope": scope,
            "use_internal_format_weight": use_internal_format_weight,
        },
        doc=__doc__ or "",
    )
    return {m.__name__: m for m in (package, configs, config, core, utils, inference, scope, ops)}
