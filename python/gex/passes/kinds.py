"""The three kinds of passes: patterns, single nodes, whole graphs."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from gex._gex import passes as _passes
from gex.es import holder
from gex.es.builder import EsGraphBuilder, builder_of
from gex.es.graph import Graph
from gex.es.holder import Result, TensorHolder, natives_of


class Match:
    """A match in the current graph; valid until the function that received it returns."""

    def __init__(self, native: _passes.Match) -> None:
        self._native = native
        self.builder = builder_of(native.builder())

    @property
    def inputs(self) -> list[TensorHolder | None]:
        """The values matched to the pattern's inputs, or the operands of the node."""
        count = self._native.input_count
        return [self._holder(self._native.input(k)) for k in range(count)]

    def output(self, index: int = 0) -> TensorHolder:
        return holder.make(self.builder, self._native.output(index))

    def captured(self, index: int) -> TensorHolder:
        return holder.make(self.builder, self._native.captured(index))

    def inline(self, graph: Graph) -> list[TensorHolder]:
        """A copy of a graph that was built by hand: its inputs are the match's."""
        return [holder.make(self.builder, value) for value in self._native.inline(graph._native)]

    def _holder(self, native: Any) -> TensorHolder | None:
        return None if native is None else holder.make(self.builder, native)


class PatternInputs:
    """Inputs of a pattern, made on first access: inputs[0], inputs[:3]."""

    def __init__(self, builder: EsGraphBuilder) -> None:
        self.builder = builder
        self.captures: list[TensorHolder] = []
        self._made: dict[int, TensorHolder] = {}

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            if index.stop is None or index.stop < 0 or (index.start or 0) < 0:
                raise IndexError("a slice of pattern inputs needs an end: inputs[:3]")
            return [self[k] for k in range(*index.indices(index.stop))]
        if index not in self._made:
            self._made[index] = self.builder.CreateInput(index)
        return self._made[index]

    def __iter__(self) -> Any:
        raise TypeError("the number of a pattern's inputs is not known here; write inputs[:3]")

    def typed(self, index: int, shape: Sequence[int | str], dtype: str = "f32") -> TensorHolder:
        """An input with a shape that the ops of the pattern accept; matching ignores the shape."""
        if index in self._made:
            raise ValueError(f"input {index} of the pattern already exists")
        self._made[index] = self.builder.CreateInput(index, None, dtype, shape)
        return self._made[index]

    def capture(self, tensor: TensorHolder) -> TensorHolder:
        """Makes `match.captured()` return the value matched to this tensor."""
        self.captures.append(tensor)
        return tensor


def pattern(function: Callable[[Any, PatternInputs], Result]) -> Callable[..., Result]:
    """Marks a method that builds a pattern. Several are tried in order."""
    function._gex_pattern = True  # type: ignore[attr-defined]
    return function


def _call_with(function: Callable[..., Any], match: Match) -> Any:
    """replacement(self, inputs) or replacement(self, inputs, match)."""
    wants_match = len(inspect.signature(function).parameters) > 1
    return function(match.inputs, match) if wants_match else function(match.inputs)


def _refuse_run(cls: type) -> None:
    if "run" in cls.__dict__:
        raise TypeError(f"{cls.__name__} overrides run(), which only graph passes have")


class PatternPass(ABC):
    """Methods marked by @pattern build the patterns, replacement() builds their replacement."""

    any_constants = False  # constants of the patterns match any constants
    any_attributes = False  # nodes of the patterns may have any attributes

    def __init_subclass__(cls) -> None:
        _refuse_run(cls)

    def meet_requirements(self, match: Match) -> bool:
        return True

    @abstractmethod
    def replacement(self, inputs: list[TensorHolder], match: Match) -> Result:
        """A value for each result of the pattern."""

    def _register(self, description: _passes.Description) -> None:
        patterns = []
        for name, function in inspect.getmembers(self, inspect.ismethod):
            if not getattr(function, "_gex_pattern", False):
                continue
            builder = EsGraphBuilder(name)
            inputs = PatternInputs(builder)
            result = function(inputs)
            outputs = [result] if isinstance(result, TensorHolder) else list(result)
            graph = builder.Build(outputs)
            captures = [tensor._native for tensor in inputs.captures]
            patterns.append((graph._native, captures))
        if not patterns:
            raise ValueError(f"{type(self).__name__} has no method marked by @pattern")
        _passes.register_pattern_pass(
            description,
            patterns,
            self.any_constants,
            self.any_attributes,
            lambda found: bool(self.meet_requirements(Match(found))),
            lambda found: natives_of(_call_with(self.replacement, Match(found)), "replacement()"),
        )


class DecomposePass(ABC):
    """Replaces nodes of the ops that it is registered for."""

    def __init_subclass__(cls) -> None:
        _refuse_run(cls)

    def meet_requirements(self, match: Match) -> bool:
        return True

    @abstractmethod
    def replacement(self, inputs: list[TensorHolder | None], match: Match) -> Result:
        """A value for each result of the node."""

    def _register(self, description: _passes.Description, op_types: Sequence[str]) -> None:
        _passes.register_decompose_pass(
            description,
            list(op_types),
            lambda found: bool(self.meet_requirements(Match(found))),
            lambda found: natives_of(_call_with(self.replacement, Match(found)), "replacement()"),
        )


class GraphEditor:
    """A graph while a pass changes it; valid until run() returns."""

    def __init__(self, native: _passes.Editor) -> None:
        self._native = native
        self.builder = builder_of(native.builder())

    def nodes(self) -> list[TensorHolder]:
        """The first result of each node, in order."""
        return [holder.make(self.builder, value) for value in self._native.nodes()]

    def insert_before(self, tensor: TensorHolder) -> None:
        """Inserts new nodes before the node of this value."""
        self._native.insert_before(tensor._native)

    def replace(self, tensor: TensorHolder, by: TensorHolder) -> None:
        """Redirects all uses of `tensor` to `by`, which must be computed before them."""
        self._native.replace(tensor._native, by._native)

    def erase(self, tensor: TensorHolder) -> None:
        """Removes the node of a value that is no longer used."""
        self._native.erase(tensor._native)


class GraphPass(ABC):
    """A pass over the whole graph."""

    @abstractmethod
    def run(self, graph: GraphEditor) -> bool:
        """Whether it changed anything."""

    def _register(self, description: _passes.Description) -> None:
        _passes.register_graph_pass(description, lambda editor: bool(self.run(GraphEditor(editor))))
