"""What tests of npugraph_ex share: compile with its options, read its counters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo.utils

import gex


def compiled(fn: Callable[..., Any], dynamic: bool | None = False, **options: Any) -> Any:
    return torch.compile(
        fn, backend="npugraph_ex", fullgraph=True, dynamic=dynamic, options=options
    )


def count(name: str, graph: int = -1) -> int:
    """A counter of the graph compiled last, or of another one of the list of reports."""
    report = gex.reports()[graph]
    return torch._dynamo.utils.counters["npugraph_ex"][f"{name}_{report.name}"]


def recaptures(graph: int = -1) -> int:
    kinds = ("mutated_input_change", "global_limit_core_change", "force_recapture")
    return sum(count(f"recapture_due_to_{kind}", graph) for kind in kinds)


def same_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
