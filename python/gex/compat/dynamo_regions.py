"""How Dynamo traces calls of nested compile regions. Older versions of PyTorch lack parts of it:
importing this module then fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._dynamo import exc
from torch._dynamo.decorators import DynamoConfigPatchProxy
from torch._dynamo.variables import invoke_subgraph as _dynamo
from torch._dynamo.variables.invoke_subgraph import (
    InputFingerprint,
    InputTag,
    InvokeSubgraphHigherOrderVariable,
    LiftedBoundSymbol,
    ListVariable,
    TensorVariable,
    TupleVariable,
    VariableTracker,
    classify_vt,
)

__all__ = [
    "InputFingerprint",
    "InputTag",
    "LiftedBoundSymbol",
    "ListVariable",
    "TensorVariable",
    "TupleVariable",
    "VariableTracker",
    "classify_vt",
]

call_region = InvokeSubgraphHigherOrderVariable._call_function
build_fingerprint = _dynamo.build_input_fingerprint
build_input_mapping = _dynamo.build_subgraph_input_mapping
has_reuse_entries = _dynamo.has_reuse_entries

# Exceptions by which Dynamo ends a trace.
TRACE_ENDS = (exc.RestartAnalysis, exc.SkipFrame)


class RestartTrace(exc.UnspecializeRestartAnalysis, exc.TensorifyScalarRestartAnalysis):
    """Makes Dynamo restart the trace; may be raised by the tracer and by backends."""


def floats_as_constants() -> Any:
    """A context for traced code: floats inside are constants of the graph."""
    return DynamoConfigPatchProxy(torch._dynamo.config.patch(specialize_float=True))


def replace_call_of_regions(call: Callable[..., Any]) -> None:
    """Makes Dynamo trace each call of a region with this function."""
    InvokeSubgraphHigherOrderVariable._call_function = call


@contextmanager
def helpers_replaced(
    fingerprint: Callable[..., Any], input_mapping: Callable[..., Any]
) -> Iterator[None]:
    """Context in which Dynamo uses these two functions in place of its own; it compiles one
    frame at a time."""
    _dynamo.build_input_fingerprint = fingerprint
    _dynamo.build_subgraph_input_mapping = input_mapping
    try:
        yield
    finally:
        _dynamo.build_input_fingerprint = build_fingerprint
        _dynamo.build_subgraph_input_mapping = build_input_mapping
