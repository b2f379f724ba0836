"""Calls of regions whose trace Dynamo reuses for the next block."""

from __future__ import annotations

from typing import Any

from gex.compat import dynamo_regions, region_reuse
from gex.compat.dynamo_regions import ListVariable, TupleVariable, VariableTracker
from gex.compat.region_reuse import (
    InputFingerprint,
    InputTag,
    LiftedBoundSymbol,
    classify_vt,
)


def call_region(
    variable: Any, tx: Any, args: list[Any], kwargs: dict[str, Any]
) -> tuple[Any, str | None]:
    """Returns the result, and why Dynamo would trace the next block of the group again; None if it
    would not."""
    with region_reuse.helpers_replaced(_fingerprint, _input_mapping):
        result = dynamo_regions.call_region(variable, tx, args, kwargs)
    if region_reuse.has_reuse_entries(tx, args[0]):
        return result, None
    if region_reuse.build_fingerprint(tx, args[1:], kwargs).has_unknown:
        return result, "it takes arguments that are not tensors, numbers or modules"
    return result, dynamo_regions.why_not_tensors(result) or "it changes something outside itself"


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
        found = region_reuse.build_fingerprint(tx, args, kwargs)
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
    mapping = region_reuse.build_input_mapping(tx, p_args, flat_vts)
    known = tx.output.current_tracer.bound_symbols
    for origin, proxy in zip(mapping, p_args[2:]):
        if isinstance(origin, LiftedBoundSymbol) and origin.expr not in known:
            meta = proxy.node.meta
            grapharg = meta.get("grapharg")
            size = meta.get("example_value") if grapharg is None else grapharg.example
            origin.expr = size.node._expr
    return mapping
