"""torch.export in fewer steps than its public functions."""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export._trace import _export
from torch.export.exported_program import _decompose_exported_program
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from gex.compat.fake_tensors import unset_fake_temporarily
from gex.compat.pytree import tree_flatten
from gex.compat.resampling import whole_resampling
from gex.errors import BranchOnData


def _line_of_user(error: BaseException) -> traceback.FrameSummary | None:
    """The innermost line of the traceback that belongs to neither PyTorch nor gex."""
    own = (os.path.dirname(torch.__file__), os.path.dirname(os.path.dirname(__file__)))
    frames = traceback.extract_tb(error.__traceback__)
    outside = [f for f in frames if f.filename.endswith(".py") and not f.filename.startswith(own)]
    return outside[-1] if outside else None


def exported(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any
) -> ExportedProgram:
    """The result of `torch.export.export` and `without_composites`, traced once instead of
    twice where possible."""
    # Traced once, AOTAutograd would make symbols of integers, whose guards have no source.
    twice = any(type(leaf) is int for leaf in tree_flatten((args, kwargs))[0])
    with _quiet(), whole_resampling():
        try:
            program = _export(
                module, args, kwargs, dynamic_shapes, strict=False, pre_dispatch=twice
            )
            return without_composites(program) if twice else program
        except GuardOnDataDependentSymNode as error:
            place = _line_of_user(error)
            if place is None:
                raise
            raise BranchOnData(f"{place.filename}:{place.lineno}", place.line or "") from error


def without_composites(program: ExportedProgram) -> ExportedProgram:
    """Decomposes composite ops (those defined only by other ops), as torch.compile does, and no
    others.

    Equivalent to `run_decompositions` with a table of them all, but without building that table,
    which takes most of its time.
    """
    with _quiet(), whole_resampling():
        return _decompose_exported_program(
            program,
            cia_to_decomp={},
            python_decomp_table={},
            joint_loss_index=None,
            decompose_custom_triton_ops=False,
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppresses warnings as PyTorch's public functions do, and those about its internal use of
    pytrees."""
    with unset_fake_temporarily(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield
