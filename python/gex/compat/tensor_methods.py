"""Tensor methods for which Dynamo has special rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def trace_method_as(name: str, function: Callable[..., Any]) -> None:
    """Makes Dynamo trace `tensor.name(...)` as a call of the function from now on."""
    from torch._dynamo.variables.builder import SourcelessBuilder
    from torch._dynamo.variables.tensor import TensorVariable

    def method(self: Any, tx: Any, *args: Any, **kwargs: Any) -> Any:
        return SourcelessBuilder.create(tx, function).call_function(tx, [self, *args], kwargs)

    setattr(TensorVariable, f"method_{name}", method)
