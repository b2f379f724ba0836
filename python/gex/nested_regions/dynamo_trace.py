"""How Dynamo traces calls of the regions of `gex.regions`; calls that can't be reused fall back."""

from __future__ import annotations

import contextlib
import functools
import textwrap
import weakref
from collections.abc import Iterator
from typing import Any

from gex.compat import dynamo_regions
from gex.compat.dynamo_regions import (
    InputFingerprint,
    InputTag,
    LiftedBoundSymbol,
    ListVariable,
    RestartTrace,
    TensorVariable,
    TupleVariable,
    VariableTracker,
    classify_vt,
)
from gex.compat.tracing import TracingContext, current_context
from gex.nested_regions.cache_objects import INDEX, WITH_CACHE, LayerIndex
from gex.nested_regions.groups import (
    GROUP,
    Group,
    fall_back,
    on_failure,
    restore_forward,
    traced_forwards,
)

# While a region is traced its floats (eps, scale) are constants: a region can't take them as
# inputs. Dynamo applies this only to what it traces inside the region.
FLOATS_AS_CONSTANTS = dynamo_regions.floats_as_constants()

_groups_of_trace: weakref.WeakKeyDictionary[TracingContext, list[Group]]
_groups_of_trace = weakref.WeakKeyDictionary()

_hides_index = False  # while a region with a cache is traced; Dynamo compiles one frame at a time


@functools.cache
def install() -> None:
    """Makes Dynamo call `_call_function` below for our regions; other regions are traced as
    before."""
    dynamo_regions.replace_call_of_regions(_call_function)
    dynamo_regions.replace_attribute_of_modules(INDEX, lambda: LayerIndex if _hides_index else None)
    dynamo_regions.replace_forward_of_modules(traced_forwards.get)
    on_failure(start_over)


def start_over(problem: Exception) -> None:
    """Undoes the regions of the current trace and restarts it; does nothing if it has none."""
    context = current_context()
    groups = _groups_of_trace.get(context, []) if context is not None else []
    if groups:
        for group in groups:
            fall_back(group, _in_short(problem))
        raise RestartTrace(restart_reason="regions of gex") from problem


def _in_short(problem: Exception) -> str:
    text = str(problem).strip()
    if "exceeded maximum reuse entries" in text:
        return "every call differs from the earlier ones"
    kind = "" if isinstance(problem, RuntimeError) else f"{type(problem).__name__}: "
    return textwrap.shorten(kind + text.partition("\n")[0], 160)


@functools.wraps(dynamo_regions.call_region)
def _call_function(variable: Any, tx: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A call of a nested region; ours may have to fall back."""
    function = args[0].get_function() if hasattr(args[0], "get_function") else None
    group: Group | None = getattr(function, GROUP, None)
    if group is None:
        return dynamo_regions.call_region(variable, tx, args, kwargs)
    try:
        with (
            dynamo_regions.helpers_replaced(_fingerprint, _input_mapping),
            _index_hidden(hasattr(function, WITH_CACHE)),
        ):
            result = dynamo_regions.call_region(variable, tx, args, kwargs)
        reason = _why_not_reusable(tx, args, kwargs, result)
    except dynamo_regions.TRACE_ENDS:
        raise
    except Exception as problem:  # what fails in a region may work outside of it
        reason = _in_short(problem)
    if reason is not None:
        fall_back(group, reason)
        restore_forward(args[1].value)  # for example of a copy of the model
        raise RestartTrace(restart_reason=f"no region: {reason}")
    groups = _groups_of_trace.setdefault(tx.output.tracing_context, [])
    if group not in groups:
        groups.append(group)
    return result


@contextlib.contextmanager
def _index_hidden(hidden: bool) -> Iterator[None]:
    """Inside this context, blocks that differ only in their layer index are equal."""
    global _hides_index
    before, _hides_index = _hides_index, hidden
    try:
        yield
    finally:
        _hides_index = before


def _why_not_reusable(tx: Any, args: list[Any], kwargs: dict[str, Any], result: Any) -> str | None:
    """Why Dynamo would trace the next block of the group again; None if it would not."""
    if dynamo_regions.has_reuse_entries(tx, args[0]):
        return None
    if dynamo_regions.build_fingerprint(tx, args[1:], kwargs).has_unknown:
        return "it takes arguments that are not tensors, numbers or modules"
    parts = result.items if isinstance(result, (TupleVariable, ListVariable)) else [result]
    for part in parts:
        if not isinstance(part, TensorVariable):
            return f"it returns a {part.python_type_name()}"
    return "it changes something outside itself"


# --- how calls are compared and built -------------------------------------------------------


class _OtherArgument(Exception):
    """An argument that is neither a plain container nor something Dynamo compares."""


def _fingerprint(tx: Any, args: Any, kwargs: dict[str, Any]) -> InputFingerprint:
    """Dynamo traces a pytree function for it, which takes longer than all its checks together.

    It also treats calls as equal that differ in which arguments are the same object.
    """
    leaves: list[Any] = []
    try:
        structure: Any = tuple(_flatten(vt, leaves) for vt in (*args, *kwargs.values()))
        sources = [getattr(vt, "source", None) for _, vt in leaves]
        found = InputFingerprint(leaves, sources, False, (structure, tuple(kwargs)))
    except _OtherArgument:
        found = dynamo_regions.build_fingerprint(tx, args, kwargs)
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
    """A size that was specialised to a number is still tracked by its symbol in the tracer."""
    mapping = dynamo_regions.build_input_mapping(tx, p_args, flat_vts)
    known = tx.output.current_tracer.bound_symbols
    for origin, proxy in zip(mapping, p_args[2:]):
        if isinstance(origin, LiftedBoundSymbol) and origin.expr not in known:
            meta = proxy.node.meta
            grapharg = meta.get("grapharg")
            size = meta.get("example_value") if grapharg is None else grapharg.example
            origin.expr = size.node._expr
    return mapping
