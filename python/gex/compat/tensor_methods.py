"""Methods of tensors that Dynamo has rules of its own for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def trace_method_as(name: str, function: Callable[..., Any]) -> None:
    """From here on Dynamo traces `tensor.name(...)` as a call of the function."""
    from torch._dynamo.variables.builder import SourcelessBuilder
    from torch._dynamo.variables.tensor import TensorVariable

    def method(self: Any, tx: Any, *args: Any, **kwargs: Any) -> Any:
        return SourcelessBuilder.create(tx, function).call_function(tx, [self, *args], kwargs)

    setattr(TensorVariable, f"method_{name}", method)
