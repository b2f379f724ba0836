"""Compiled functions of Dynamo, its debug folder and counters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo.utils
from torch._dynamo import eval_frame
from torch._dynamo.mutation_guard import GenerationTracker

CALL_FILE = eval_frame.__file__  # has the function that calls compiled code
CALL_FUNCTION = "compile_wrapper"


def disallow_in_graph(function: Callable[..., Any]) -> None:
    """Dynamo breaks graphs at calls of the function."""
    torch._dynamo.disallow_in_graph(function)


def debug_folder() -> str:
    """TORCH_COMPILE_DEBUG's folder of this process."""
    return torch._dynamo.utils.get_debug_dir()


def counters() -> Any:
    """torch._dynamo.utils.counters."""
    return torch._dynamo.utils.counters


def is_compiled(fn: Any) -> bool:
    return isinstance(fn, torch._dynamo.OptimizedModule) or hasattr(
        fn, "_torchdynamo_orig_callable"
    )


def uncompiled(fn: Any) -> Callable[..., Any]:
    """The function or module that was compiled."""
    module = getattr(fn, "_orig_mod", None)
    return module if module is not None else eval_frame.innermost_fn(fn)


def mark_size_dynamic(tensor: torch.Tensor, axis: int) -> None:
    torch._dynamo.mark_dynamic(tensor, axis)


def call_generation() -> int:
    """Counts the calls of compiled functions from uncompiled code."""
    return GenerationTracker.generation


def load() -> None:
    """Imports torch._dynamo."""
