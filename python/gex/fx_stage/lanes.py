"""Streams of a graph: which nodes lie on which, who waits for whom, and that each is left again.

A graph begins and ends on its entry stream. A side stream waits for the entry stream before its
first node, and the entry stream for every side stream before the results are handed out.
"""

from __future__ import annotations

from torch.fx import GraphModule, Node

from gex.fx_stage import stream_ops as marks
from gex.fx_stage.scope_ops import MARKS, SCOPE_ENTER, SCOPE_EXIT
from gex.report import ENTRY, Lanes

_LABEL = "_user_stream_label"


def find(gm: GraphModule) -> Lanes:
    """RuntimeError where a stream that was set is not left before the end."""
    return _Walk().over(gm)


class _Walk:
    def __init__(self) -> None:
        self.lanes = Lanes()
        self.stack = [ENTRY]
        # Streams that are known under another name: the default one is the caller's.
        self.names = {"stream_0": ENTRY}
        self.recorded: dict[str, str] = {}  # event: the stream that recorded it last
        self.set_at: Node | None = None

    def over(self, gm: GraphModule) -> Lanes:
        for node in gm.graph.nodes:
            if node.op != "call_function":
                continue
            if node.target in marks.STREAM_MARKS or node.target in (SCOPE_ENTER, SCOPE_EXIT):
                self._follow(node)
            elif node.target not in MARKS:
                self.lanes.of[node] = self.stack[-1]
                self.lanes.nodes[self.stack[-1]] += 1
        if self.stack != [ENTRY]:
            where = f" (set by {self.set_at.name!r})" if self.set_at is not None else ""
            raise RuntimeError(
                f"the function ends on stream {self.stack[-1]!r}{where} and not on the one it was "
                "called on: set that stream again, or use `with stream(...)`"
            )
        return self.lanes

    def _stream(self, name: str) -> str:
        return self.names.get(name, name) if name else self.stack[-1]

    def _follow(self, node: Node) -> None:
        target, args = node.target, node.args
        if target is marks.ENTER:
            self.stack.append(self._stream(str(args[0])))
        elif target is SCOPE_ENTER:
            labels = dict(zip(args[0], args[1]))  # type: ignore[arg-type]
            self.stack.append(labels.get(_LABEL, self.stack[-1]))
        elif target in (marks.EXIT, SCOPE_EXIT):
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
        """A stream that is on the stack already is gone back to."""
        self.set_at = node
        if stream in self.stack:
            del self.stack[self.stack.index(stream) + 1 :]
        else:
            self.stack.append(stream)

    def _wait(self, waiting: str, awaited: str | None) -> None:
        """An event that nothing has recorded yet holds nobody up."""
        if awaited is not None and awaited != waiting:
            self.lanes.waits.append((waiting, awaited))
