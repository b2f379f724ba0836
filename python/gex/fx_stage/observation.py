"""Observers that are shown a graph after each FX stage: debug files, the log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch.fx import GraphModule

AOT_GRAPH = "aot_graph"  # the name under which a graph is seen before any stage
ALL_PASSES = "all_passes"  # and after all of them


@dataclass(frozen=True)
class Subject:
    """The graph that a compile is at."""

    graph: str  # as in reports: graph_<k>
    phase: str  # forward or backward


# Sees the graph as it is after the stage of that name; must not change it.
Observer = Callable[[Subject, str, GraphModule], None]
_observers: list[Observer] = []


def add_observer(observer: Observer) -> Callable[[], None]:
    """Has every later compile show its graphs to the observer; the result takes it off again."""
    _observers.append(observer)
    return lambda: _observers.remove(observer)


def observe(subject: Subject, stage: str, gm: GraphModule) -> None:
    for observer in _observers:
        observer(subject, stage, gm)
