"""Dynamo at the regions of `gex.regions`: what it may not reuse is traced like any other code."""

from __future__ import annotations

import functools
import textwrap
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._dynamo import exc
from torch._dynamo.decorators import DynamoConfigPatchProxy
from torch._dynamo.variables import invoke_subgraph as dynamo_regions
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
from torch._guards import TracingContext

from gex.nested_regions.regions import GROUP, Group, fall_back, put_back

# While a region is traced its floats (eps, scale) are constants: a region can't take them as
# inputs. Dynamo applies this to what it traces inside and nowhere else.
FLOATS_AS_CONSTANTS = DynamoConfigPatchProxy(torch._dynamo.config.patch(specialize_float=True))

_dynamos_call = InvokeSubgraphHigherOrderVariable._call_function
_dynamos_fingerprint = dynamo_regions.build_input_fingerprint
_dynamos_input_mapping = dynamo_regions.build_subgraph_input_mapping

_groups_of_trace: weakref.WeakKeyDictionary[TracingContext, list[Group]]
_groups_of_trace = weakref.WeakKeyDictionary()


class _TraceWithoutRegions(exc.UnspecializeRestartAnalysis, exc.TensorifyScalarRestartAnalysis):
    """Has Dynamo start over; backends may raise it too."""


def install() -> None:
    """From here on Dynamo asks `_call_function` below about regions; others it treats as before."""
    InvokeSubgraphHigherOrderVariable._call_function = _call_function  # type: ignore[method-assign]


def start_over(problem: Exception) -> None:
    """Puts back the regions of the trace at hand and has Dynamo trace again; not if it has none."""
    context = TracingContext.try_get()
    groups = _groups_of_trace.get(context, []) if context is not None else []
    if groups:
        for group in groups:
            fall_back(group, _in_short(problem))
        raise _TraceWithoutRegions(restart_reason="regions of gex") from problem


def _in_short(problem: Exception) -> str:
    text = str(problem).strip()
    if "exceeded maximum reuse entries" in text:
        return "each of its calls differs from those before"
    kind = "" if isinstance(problem, RuntimeError) else f"{type(problem).__name__}: "
    return textwrap.shorten(kind + text.partition("\n")[0], 160)


@functools.wraps(_dynamos_call)
def _call_function(variable: Any, tx: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A call of a nested region: ours may turn out not to be ones."""
    function = args[0].get_function() if hasattr(args[0], "get_function") else None
    group: Group | None = getattr(function, GROUP, None)
    if group is None:
        return _dynamos_call(variable, tx, args, kwargs)
    try:
        with _own_helpers():
            result = _dynamos_call(variable, tx, args, kwargs)
        reason = _why_not_reusable(tx, args, kwargs, result)
    except (exc.RestartAnalysis, exc.SkipFrame):
        raise
    except Exception as problem:  # whatever a region can't do, the block by itself may
        reason = _in_short(problem)
    if reason is not None:
        fall_back(group, reason)
        put_back(args[1].value)  # of a copy of the model, perhaps
        raise _TraceWithoutRegions(restart_reason=f"no region: {reason}")
    groups = _groups_of_trace.setdefault(tx.output.tracing_context, [])
    if group not in groups:
        groups.append(group)
    return result


def _why_not_reusable(tx: Any, args: list[Any], kwargs: dict[str, Any], result: Any) -> str | None:
    """Why Dynamo would trace the next block of the group anew; None if it would not."""
    if dynamo_regions.has_reuse_entries(tx, args[0]):
        return None
    if _dynamos_fingerprint(tx, args[1:], kwargs).has_unknown:
        return "it takes arguments that are no tensors, numbers or modules"
    parts = result.items if isinstance(result, (TupleVariable, ListVariable)) else [result]
    for part in parts:
        if not isinstance(part, TensorVariable):
            return f"it returns a {part.python_type_name()}"
    return "it changes something outside itself"


# --- what calls are compared by and made of -------------------------------------------------


class _OtherArgument(Exception):
    """An argument that is neither a plain container nor something Dynamo compares."""


@contextmanager
def _own_helpers() -> Iterator[None]:
    """Two steps of Dynamo's done our way, for regions of ours; Dynamo compiles one at a time."""
    dynamo_regions.build_input_fingerprint = _fingerprint
    dynamo_regions.build_subgraph_input_mapping = _input_mapping
    try:
        yield
    finally:
        dynamo_regions.build_input_fingerprint = _dynamos_fingerprint
        dynamo_regions.build_subgraph_input_mapping = _dynamos_input_mapping


def _fingerprint(tx: Any, args: Any, kwargs: dict[str, Any]) -> InputFingerprint:
    """Dynamo traces a pytree function for it, which takes longer than all its checks together.

    It also takes calls for like ones that differ in which of their arguments are the same.
    """
    leaves: list[Any] = []
    try:
        structure: Any = tuple(_flatten(vt, leaves) for vt in (*args, *kwargs.values()))
        sources = [getattr(vt, "source", None) for _, vt in leaves]
        found = InputFingerprint(leaves, sources, False, (structure, tuple(kwargs)))
    except _OtherArgument:
        found = _dynamos_fingerprint(tx, args, kwargs)
    first: dict[Any, int] = {}
    same = tuple(
        first.setdefault(vt.as_proxy().node, len(first))
        for tag, vt in found.flat_vts
        if tag in (InputTag.TENSOR, InputTag.SYMNODE)
    )
    return found._replace(treespec=(found.treespec, same))


def _flatten(vt: VariableTracker, leaves: list[Any]) -> Any:
    vt = vt.realize()
    if type(vt) in (TupleVariable, ListVariable):
        return type(vt), tuple(_flatten(item, leaves) for item in vt.items)
    tag = classify_vt(vt)
    if tag is None:
        raise _OtherArgument
    leaves.append((tag, vt))
    return None


def _input_mapping(tx: Any, p_args: tuple[Any, ...], flat_vts: list[Any]) -> list[Any]:
    """A size that turned out to be a number is known to the tracer by its symbol still."""
    mapping = _dynamos_input_mapping(tx, p_args, flat_vts)
    known = tx.output.current_tracer.bound_symbols
    for origin, proxy in zip(mapping, p_args[2:]):
        if isinstance(origin, LiftedBoundSymbol) and origin.expr not in known:
            meta = proxy.node.meta
            grapharg = meta.get("grapharg")
            size = meta.get("example_value") if grapharg is None else grapharg.example
            origin.expr = size.node._expr
    return mapping
