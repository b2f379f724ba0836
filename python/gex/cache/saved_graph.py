"""A graph compiled for calls without gradients, in a form that can be saved and restored."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from gex import _gex
from gex.compat.operators import OpOverload
from gex.importer import torch_calls
from gex.importer.graph_import import ImportedGraph
from gex.importer.outcome import ImportOutcome


class CannotBeKept(Exception):
    """The graph can't be restored in another process; the message says why."""


@dataclass(frozen=True)
class SavedGraph:
    """The whole graph, as text and bytes."""

    graph: str
    outcome: ImportOutcome  # for its report
    signature: bytes
    constants: bytes
    callees: bytes
    static: tuple[tuple[int, str], ...]  # arguments that are bound once, and their names
    written: tuple[int, ...]  # arguments that a call writes
    device: str

    def restored(self) -> RestoredGraph:
        callees = pickle.loads(self.callees)
        constants = pickle.loads(self.constants)
        signature = _gex.Signature.load(self.signature, constants)
        device = torch.device(self.device)
        return RestoredGraph(_gex.Graph.parse(self.graph), signature, callees, device)


@dataclass
class RestoredGraph:
    """What `make_runner` needs of an imported graph."""

    graph: _gex.Graph
    _signature: _gex.Signature
    callees: list[Callable[..., Any]]
    device: torch.device

    def signature(self) -> _gex.Signature:
        return self._signature


@dataclass
class GraphRecord:
    """Receives each graph while it is compiled."""

    cache_dir: str
    written: tuple[int, ...] | None = None
    _imported: list[ImportedGraph] = field(default_factory=list)
    _static: list[tuple[int, str]] = field(default_factory=list)

    def take(self, imported: ImportedGraph, static: list[tuple[int, str]]) -> None:
        self._imported.append(imported)
        self._static = static

    def saved(self) -> SavedGraph:
        if len(self._imported) != 1:
            raise CannotBeKept(f"it consists of {len(self._imported)} compiled graphs, not one")
        imported = self._imported[0]
        if self.written is None:
            raise CannotBeKept(
                "it returns views of inputs, or has arguments other than tensors and ints"
            )
        if not imported.adapter.does_nothing:
            raise CannotBeKept("its inputs or results have dtypes that gex does not support")
        return SavedGraph(
            imported.graph.text(),
            imported.outcome,
            imported.signature().save(),
            pickle.dumps(imported.constants),
            _pickled_callees(imported.callees),
            tuple(self._static),
            self.written,
            str(imported.device),
        )


def _op(name: str) -> OpOverload:
    namespace, packet, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload)


class _CalleePickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, OpOverload):
            return _op, (str(obj),)
        recipe = getattr(obj, "recipe", None)
        if isinstance(recipe, torch_calls.Recipe):
            return torch_calls.Recipe.make, (recipe,)
        return NotImplemented


def _pickled_callees(callees: list[Callable[..., Any]]) -> bytes:
    buffer = io.BytesIO()
    try:
        _CalleePickler(buffer).dump(callees)
    except (pickle.PicklingError, AttributeError, TypeError) as problem:
        raise CannotBeKept(f"a call through PyTorch can't be pickled: {problem}") from problem
    return buffer.getvalue()
