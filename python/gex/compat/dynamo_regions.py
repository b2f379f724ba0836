"""How Dynamo traces calls of nested compile regions. Older versions of PyTorch lack parts of it:
importing this module then fails."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import nn
from torch._dynamo import exc
from torch._dynamo.decorators import DynamoConfigPatchProxy
from torch._dynamo.variables import UserMethodVariable
from torch._dynamo.variables import invoke_subgraph as _dynamo
from torch._dynamo.variables.invoke_subgraph import (
    InputFingerprint,
    InputTag,
    InvokeSubgraphHigherOrderVariable,
    LiftedBoundSymbol,
    ListVariable,
    TensorVariable,
    TupleVariable,
    UnspecializedNNModuleVariable,
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


class OpaqueVariable(VariableTracker):
    """A value that traced code can only pass on and query the type of; any other use ends the
    trace."""

    _nonvar_fields: ClassVar[set[str]] = {"type", *VariableTracker._nonvar_fields}

    def __init__(self, type: type, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.type = type

    def python_type(self) -> type:
        return self.type


def replace_attribute_of_modules(name: str, replacement: Callable[[], type | None]) -> None:
    """Makes Dynamo read an attribute as an opaque value of the given type, unless that is None."""
    read = UnspecializedNNModuleVariable.var_getattr

    @functools.wraps(read)
    def var_getattr(self: Any, tx: Any, attribute: str) -> Any:
        if attribute == name and (type := replacement()) is not None:
            return OpaqueVariable(type)
        return read(self, tx, attribute)

    UnspecializedNNModuleVariable.var_getattr = var_getattr


def replace_forward_of_modules(replacement: Callable[[nn.Module], Any]) -> None:
    """Makes Dynamo trace another function instead of a module's own forward, unless it is None.

    The guards are those of the unmodified module.
    """
    read = UnspecializedNNModuleVariable.var_getattr
    is_set = UnspecializedNNModuleVariable.has_key_in_generic_dict

    @functools.wraps(read)
    def var_getattr(self: Any, tx: Any, attribute: str) -> Any:
        found = read(self, tx, attribute)
        if attribute == "forward" and (function := replacement(self.value)) is not None:
            return UserMethodVariable(function, self)
        return found

    @functools.wraps(is_set)
    def has_key_in_generic_dict(self: Any, tx: Any, key: str) -> bool:
        # Dynamo reads the instance attribute if it appears to be set, else the function of the
        # class.
        if key == "forward" and replacement(self.value) is not None:
            return True
        return is_set(self, tx, key)

    UnspecializedNNModuleVariable.var_getattr = var_getattr
    UnspecializedNNModuleVariable.has_key_in_generic_dict = has_key_in_generic_dict
