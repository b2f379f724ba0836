"""Assigns the nodes of a graph to streams, and checks that every stream is left again.

A graph begins and ends on its entry stream. A side stream waits for the entry stream before its
first node, and the entry stream for every side stream before the results are returned. Scopes may
also limit the cores of their nodes, or request deterministic results.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from torch.fx import GraphModule, Node

from gex import core_limits, determinism
from gex.fx_stage import scope_ops as scopes
from gex.fx_stage import stream_ops as marks

ENTRY = ""  # the caller's stream
_SCOPES = (scopes.SCOPE_ENTER, scopes.SCOPE_EXIT, scopes.SCOPE_LEAVE)


@dataclass
class StreamAssignment:
    """Nodes of a graph by stream, with the order that events require."""

    nodes: Counter[str] = field(default_factory=Counter)
    of: dict[Any, str] = field(default_factory=dict)  # FX nodes
    waits: list[tuple[str, str]] = field(default_factory=list)  # (waiting stream, awaited stream)
    limits: dict[Any, tuple[int, int]] = field(default_factory=dict)  # AI and vector cores of nodes
    levels: dict[Any, int] = field(default_factory=dict)  # deterministic levels of nodes

    def number_of(self, node: Any) -> int:
        """The number of the node's stream in this graph; 0 is the caller's."""
        stream = self.of.get(node, ENTRY)
        side = [name for name in self.nodes if name != ENTRY]
        return 0 if stream == ENTRY else 1 + side.index(stream)


def find(gm: GraphModule) -> StreamAssignment:
    """RuntimeError if a stream that was set is not left before the end."""
    return _Walk().over(gm)


@dataclass(frozen=True)
class _Scope:
    """The settings of a scope_enter."""

    stream: str | None
    cores: core_limits.Cores | None
    limited_stream: str | None  # None: all nodes of the scope
    level: int | None

    @classmethod
    def of(cls, node: Node) -> _Scope:
        labels: dict[str, str] = dict(zip(node.args[0], node.args[1]))
        cores = None
        if scopes.AICORES in labels or scopes.VECTORCORES in labels:
            most = core_limits.maximum()
            cores = core_limits.check(
                _number(node, labels.get(scopes.AICORES, str(most[0]))),
                _number(node, labels.get(scopes.VECTORCORES, str(most[1]))),
            )
        level = labels.get(scopes.LEVEL)
        return cls(
            labels.get(scopes.STREAM_LABEL),
            cores,
            labels.get(scopes.LIMITED_STREAM),
            None if level is None else determinism.check_level(_number(node, level)),
        )


def _number(node: Node, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{node.name}: {text!r} must be a number") from None


class _Walk:
    def __init__(self) -> None:
        self.assignment = StreamAssignment()
        self.stack = [ENTRY]
        self.scopes: list[_Scope] = []
        # Aliases of streams: the default stream is the caller's.
        self.names = {"stream_0": ENTRY}
        self.recorded: dict[str, str] = {}  # event -> the stream that recorded it last
        self.set_at: Node | None = None

    def over(self, gm: GraphModule) -> StreamAssignment:
        for node in gm.graph.nodes:
            if node.op != "call_function":
                continue
            if node.target in marks.STREAM_MARKS or node.target in _SCOPES:
                self._follow(node)
            elif node.target not in scopes.MARKS:
                self._place(node)
        if self.stack != [ENTRY]:
            where = f" (set by {self.set_at.name!r})" if self.set_at is not None else ""
            raise RuntimeError(
                f"the function ends on stream {self.stack[-1]!r}{where} and not on the one it was "
                "called on: set that stream again, or use `with stream(...)`"
            )
        return self.assignment

    def _place(self, node: Node) -> None:
        stream = self.stack[-1]
        self.assignment.of[node] = stream
        self.assignment.nodes[stream] += 1
        for scope in self.scopes:  # the innermost one wins
            limited = scope.limited_stream
            if scope.cores and (limited is None or self._stream(limited) == stream):
                self.assignment.limits[node] = scope.cores
            if scope.level is not None:
                self.assignment.levels[node] = scope.level

    def _stream(self, name: str) -> str:
        return self.names.get(name, name) if name else self.stack[-1]

    def _follow(self, node: Node) -> None:
        target, args = node.target, node.args
        if target is marks.ENTER:
            self.stack.append(self._stream(str(args[0])))
        elif target is scopes.SCOPE_ENTER:
            self.scopes.append(_Scope.of(node))
            if self.scopes[-1].stream is not None:
                self.stack.append(self.scopes[-1].stream)
        elif target in _SCOPES:
            if self.scopes.pop().stream is not None:
                self.stack.pop()
        elif target is marks.EXIT:
            self.stack.pop()
        elif target is marks.SET:
            self._set(node, self._stream(str(args[0])))
        elif target is marks.NOTE:
            self.names[str(args[0])] = self.stack[-1]
        elif target is marks.RECORD:
            self.recorded[str(args[0])] = self._stream(str(args[1]))
        elif target is marks.WAIT:
            self._wait(self._stream(str(args[1])), self.recorded.get(str(args[0])))
        elif target is marks.STREAM_WAIT:
            self._wait(self._stream(str(args[0])), self._stream(str(args[1])))

    def _set(self, node: Node, stream: str) -> None:
        """Setting a stream that is already on the stack returns to it."""
        self.set_at = node
        if stream in self.stack:
            del self.stack[self.stack.index(stream) + 1 :]
        else:
            self.stack.append(stream)

    def _wait(self, waiting: str, awaited: str | None) -> None:
        """Waiting for an event that was not recorded yet has no effect."""
        if awaited is not None and awaited != waiting:
            self.assignment.waits.append((waiting, awaited))
