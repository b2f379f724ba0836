"""Graph breaks where Dynamo traces indexing of tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def break_at_indexing(
    function: Any, applies: Callable[[Any], bool], breaks: Callable[[], dict[str, Any]]
) -> None:
    """Breaks the graph where `function` (getitem or setitem) is called with a key that `applies`
    to.

    Wraps the method by which Dynamo traces indexing; which one depends on its version. `breaks`
    gives the message for the break.
    """
    from torch._dynamo.exc import unimplemented
    from torch._dynamo.variables.builtin import BuiltinVariable
    from torch._dynamo.variables.tensor import TensorVariable

    method = f"method___{function.__name__}__"

    def check(key: Any) -> None:
        if applies(key.realize()):
            unimplemented(**breaks())

    by_builtin, by_method = BuiltinVariable.call_function, getattr(TensorVariable, method)

    @functools.wraps(by_builtin)
    def call_function(self: Any, tx: Any, args: Any, kwargs: Any) -> Any:
        if self.fn is function and isinstance(args[0].realize(), TensorVariable):
            check(args[1])
        return by_builtin(self, tx, args, kwargs)

    @functools.wraps(by_method)
    def call_method(self: Any, tx: Any, key: Any, *rest: Any, **kwargs: Any) -> Any:
        check(key)
        return by_method(self, tx, key, *rest, **kwargs)

    BuiltinVariable.call_function = call_function
    setattr(TensorVariable, method, call_method)


def has_slice(key: Any) -> bool:
    """Whether Dynamo's variable for a key is a slice, or a tuple with one."""
    from torch._dynamo.variables.lists import SliceVariable, TupleVariable

    items = key.items if isinstance(key, TupleVariable) else [key]
    return any(isinstance(item, SliceVariable) for item in items)
