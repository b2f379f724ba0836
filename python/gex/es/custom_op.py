"""User-defined ops, composed of other ops."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from typing import Any

from gex._gex import es as _es
from gex.es import holder
from gex.es.builder import builder_of
from gex.es.holder import Result, TensorHolder


def register_op(name: str) -> Callable[[Callable[..., Result]], Callable[..., Any]]:
    """Registers a function as an op; the decorated function then creates nodes of that op::

        @es.register_op("my.leaky")
        def leaky(x, scale=None, *, slope: float = 0.01):
            y = es.where(es.gt(x, 0), x, x * slope)
            return y if scale is None else y * scale

        y = leaky(x, slope=0.2)

    Its parameters are the inputs (`=None`: optional; `*xs`: any number), keyword-only ones the
    attributes, whose defaults determine their types. It is called for each node, for type inference
    and for expansion, and must give the same result for the same types and attributes. An op can't
    be unregistered.
    """

    def register(function: Callable[..., Result]) -> Callable[..., Any]:
        signature = inspect.signature(function)
        inputs, attrs = _declared(name, signature)
        positions = [
            p.name for p in signature.parameters.values() if p.kind is not Parameter.KEYWORD_ONLY
        ]

        def body(native: _es.Builder, operands: Sequence[Any], values: Mapping[str, Any]) -> Any:
            builder = builder_of(native)
            holders = [None if o is None else holder.make(builder, o) for o in operands]
            return holder.natives_of(function(*holders, **values), f"{name}()")

        _es.register_op(name, inspect.getdoc(function) or "", inputs, attrs, body)

        @functools.wraps(function)
        def apply(*args: Any, **kwargs: Any) -> TensorHolder | list[TensorHolder]:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            operands: list[Any] = []
            for position in positions:
                value = bound.arguments[position]
                variadic = signature.parameters[position].kind is Parameter.VAR_POSITIONAL
                operands += value if variadic else [value]
            given = {attr: bound.arguments[attr] for attr in attrs}
            results = holder.apply(name, operands, given, None, alike=True)
            return results[0] if len(results) == 1 else results

        return apply

    return register


def register_loop_op(name: str, text: str, doc: str = "") -> Callable[..., Any]:
    """Registers an op whose body is the text of a loop kernel; returns a function for its nodes.

    Parameters `in` of the kernel are the inputs, `out` the results. There is one stage without a
    reduction, which stores each result once, at the indices of the grid; so the op fuses with its
    neighbours and runs on every target::

        squared = es.register_loop_op("my.squared", \"\"\"symbols n
        kernel k(x: in f32[n], y: out f32[n]) grid(i < n) {
          stage {
            v0 = load x[i] : f32
            v1 = mul v0, v0 : f32
            store y[i] = v1
          }
        }\"\"\")
    """
    _es.register_loop_op(name, doc, text)

    def apply(*operands: Any) -> TensorHolder | list[TensorHolder]:
        results = holder.apply(name, list(operands), {}, None, alike=True)
        return results[0] if len(results) == 1 else results

    apply.__doc__ = doc or None
    return apply


def _declared(name: str, signature: inspect.Signature) -> tuple[list[str], dict[str, Any]]:
    """Inputs in the C interface's notation, and attributes."""
    inputs: list[str] = []
    attrs: dict[str, Any] = {}
    for parameter in signature.parameters.values():
        if parameter.kind is Parameter.VAR_KEYWORD:
            raise TypeError(f"{name}: **{parameter.name} is not supported; name the attributes")
        if parameter.kind is Parameter.KEYWORD_ONLY:
            if parameter.default is Parameter.empty:
                raise TypeError(f"{name}: attribute {parameter.name!r} needs a default of its type")
            attrs[parameter.name] = parameter.default
        elif parameter.kind is Parameter.VAR_POSITIONAL:
            inputs.append(f"{parameter.name}...")
        elif parameter.default is Parameter.empty:
            inputs.append(parameter.name)
        elif parameter.default is None:
            inputs.append(f"{parameter.name}?")
        else:
            raise TypeError(
                f"{name}: input {parameter.name!r} has a default other than None; attributes "
                "must follow a *"
            )
    return inputs, attrs
