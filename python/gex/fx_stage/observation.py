"""Observers that receive a graph after each FX stage: debug files, the log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch.fx import GraphModule

AOT_GRAPH = "aot_graph"  # stage name of a graph before any stage
ALL_PASSES = "all_passes"  # and after all of them


@dataclass(frozen=True)
class Subject:
    """The graph being compiled."""

    graph: str  # as in reports: graph_<k>
    phase: str  # forward or backward


# Receives the graph after the stage of that name; must not change it.
Observer = Callable[[Subject, str, GraphModule], None]
_observers: list[Observer] = []


def add_observer(observer: Observer) -> Callable[[], None]:
    """Shows the graphs of every later compile to the observer; call the result to remove it."""
    _observers.append(observer)
    return lambda: _observers.remove(observer)


def observe(subject: Subject, stage: str, gm: GraphModule) -> None:
    for observer in _observers:
        observer(subject, stage, gm)
