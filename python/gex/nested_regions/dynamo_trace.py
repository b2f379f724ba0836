"""How Dynamo traces calls of the regions of `gex.regions`; calls that can't be reused fall back."""

from __future__ import annotations

import contextlib
import functools
import textwrap
import weakref
from collections.abc import Iterator
from typing import Any

from gex.compat import dynamo_regions
from gex.compat.dynamo_regions import RestartTrace
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

if dynamo_regions.REUSES_TRACES:
    from gex.nested_regions import trace_reuse

# While a region is traced its floats (eps, scale) are constants: a region can't take them as
# inputs. Dynamo applies this only to what it traces inside the region.
FLOATS_AS_CONSTANTS = dynamo_regions.floats_as_constants()

CALLS_DIFFER = "every call differs from the earlier ones"
# Limit on the different bodies of one group of blocks. Where Dynamo traces every block, a group
# saves time only if nearly all its bodies are equal, and should fall back soon if they are not.
MAX_VARIANTS = 8 if dynamo_regions.REUSES_TRACES else 3

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
        return CALLS_DIFFER
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
        with _index_hidden(hasattr(function, WITH_CACHE)):
            result, reason = _trace_call(variable, tx, args, kwargs)
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


def _trace_call(
    variable: Any, tx: Any, args: list[Any], kwargs: dict[str, Any]
) -> tuple[Any, str | None]:
    """Returns the result, and why the next block of the group could not share this trace; None if
    it can."""
    if dynamo_regions.REUSES_TRACES:
        return trace_reuse.call_region(variable, tx, args, kwargs)
    result = dynamo_regions.call_region(variable, tx, args, kwargs)
    if dynamo_regions.num_bodies(tx, args[0].get_function()) > MAX_VARIANTS:
        return result, CALLS_DIFFER
    return result, dynamo_regions.why_not_tensors(result)
