"""How Dynamo traces calls of nested compile regions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import nn
from torch._dynamo import exc
from torch._dynamo.decorators import DynamoConfigPatchProxy
from torch._dynamo.variables import UserMethodVariable, nn_module
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.lists import ListVariable, TupleVariable
from torch._dynamo.variables.nn_module import UnspecializedNNModuleVariable
from torch._dynamo.variables.tensor import TensorVariable

try:
    from torch._dynamo.variables.invoke_subgraph import InvokeSubgraphHigherOrderVariable
except ImportError:  # PyTorch 2.11 and older
    from torch._dynamo.variables.higher_order_ops import InvokeSubgraphHigherOrderVariable

__all__ = ["ListVariable", "TupleVariable", "VariableTracker"]

# Whether Dynamo traces equal calls once (region_reuse.py). If not, it traces each, and AOTAutograd
# traces equal bodies once, which is the longer part.
REUSES_TRACES = (
    "max_reuse_entries" in inspect.signature(torch.compiler.nested_compile_region).parameters
)

call_region = InvokeSubgraphHigherOrderVariable._call_function

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


def num_bodies(tx: Any, function: Any) -> int:
    """The number of different bodies that calls of a region have in this trace. Not for versions
    that reuse traces."""
    caches = tx.output.tracing_context.hop_dispatch_set_cache
    bodies = caches.get_cache(torch._higher_order_ops.invoke_subgraph)
    return len(bodies.get_dynamo_installed_submodules(id(function)))


def why_not_tensors(result: VariableTracker) -> str | None:
    """Describes the part of a region's result that is not a tensor; None if there is none."""
    parts = result.items if isinstance(result, (TupleVariable, ListVariable)) else [result]
    for part in parts:
        if not isinstance(part, TensorVariable):
            return f"it returns a {part.python_type_name()}"
    return None


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
    if not REUSES_TRACES:
        _trace_whole_calls(replacement)


def _trace_whole_calls(replacement: Callable[[nn.Module], Any]) -> None:
    """PyTorch 2.11 traces the forward of a module's class without reading the attribute; for these
    modules it shall trace `Module.__call__`, which does."""
    call = UnspecializedNNModuleVariable.call_function

    @functools.wraps(call)
    def call_function(self: Any, tx: Any, args: Any, kwargs: Any) -> Any:
        is_plain = type(self.value).__call__ is nn.Module.__call__
        if self.source is None or not is_plain or replacement(self.value) is None:
            return call(self, tx, args, kwargs)
        nn_module.guard_to_detect_forward_monkeypatching(self.source, self.value)
        with nn_module.record_nn_module_stack(
            str(id(self.value)), self.get_nn_module_stack_source(), tx, self.value
        ):
            return self.call_method(tx, "_call_impl", args, kwargs)

    UnspecializedNNModuleVariable.call_function = call_function
