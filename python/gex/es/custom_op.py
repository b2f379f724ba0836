"""Ops of the user's own, made of others."""

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
    """Makes an op of a function, and of the function one that makes such nodes::

        @es.register_op("my.leaky")
        def leaky(x, scale=None, *, slope: float = 0.01):
            y = es.where(es.gt(x, 0), x, x * slope)
            return y if scale is None else y * scale

        y = leaky(x, slope=0.2)

    Its parameters are the inputs (`=None`: may be absent; `*xs`: any number), those behind the `*`
    the attributes with their defaults, which fix their kinds. It is called for each node, when its
    types are asked for and when it is replaced by what it is made of, and must give the same for
    the same types and attributes. An op can't be taken back.
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


def _declared(name: str, signature: inspect.Signature) -> tuple[list[str], dict[str, Any]]:
    """Inputs as the C interface spells them, and attributes."""
    inputs: list[str] = []
    attrs: dict[str, Any] = {}
    for parameter in signature.parameters.values():
        if parameter.kind is Parameter.VAR_KEYWORD:
            raise TypeError(f"{name}: **{parameter.name} says nothing about attributes; name them")
        if parameter.kind is Parameter.KEYWORD_ONLY:
            if parameter.default is Parameter.empty:
                raise TypeError(
                    f"{name}: attribute {parameter.name!r} needs a default, which fixes its kind"
                )
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
                "stand behind a *"
            )
    return inputs, attrs
