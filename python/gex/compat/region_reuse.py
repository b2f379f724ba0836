"""How Dynamo reuses the trace of a nested compile region for equal calls; not in PyTorch 2.11."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch._dynamo.variables import invoke_subgraph as _dynamo
from torch._dynamo.variables.invoke_subgraph import (
    InputFingerprint,
    InputTag,
    LiftedBoundSymbol,
    classify_vt,
)

__all__ = ["InputFingerprint", "InputTag", "LiftedBoundSymbol", "classify_vt"]

build_fingerprint = _dynamo.build_input_fingerprint
build_input_mapping = _dynamo.build_subgraph_input_mapping
has_reuse_entries = _dynamo.has_reuse_entries


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
