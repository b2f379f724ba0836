"""Operators whose host arguments may change between the replays of a recording.

Such a call is recorded as `gex::updatable_call`, which reads those arguments at each run.
"""

from __future__ import annotations

import difflib
import itertools
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from gex.compat.pytree import tree_flatten, tree_leaves, tree_map_only, tree_unflatten

_library = torch.library.Library("gex", "FRAGMENT")
# Some draw random numbers, so all of them stay in order.
_library.define(
    "updatable_call(Tensor[] tensors, int number) -> Tensor[]",
    tags=(torch.Tag.nondeterministic_seeded,),
)
UPDATABLE_CALL = torch.ops.gex.updatable_call.default

# "arg" or "kwarg", its position or name, and its key in update().
Spec = tuple[str, Any, str]


class NpuGraphOpHandler:
    """How calls of some operators are recorded; derive and register your own."""

    UPDATE_SPECS: ClassVar[Mapping[str, Sequence[Spec]]] = {}

    @classmethod
    def prepare_capture(cls, func: Any, args: Any, kwargs: Any) -> tuple[Any, Any, Any]:
        """Returns the call to record instead."""
        return func, args, kwargs

    @classmethod
    def postprocess_result(cls, result: Any, kwargs: Any) -> Any:
        """Returns the recorded call's result for its caller."""
        return result


_handlers: dict[str, type[NpuGraphOpHandler]] = {}


def register_npu_graph_handler(
    names: Sequence[str] | str,
) -> Callable[[type[NpuGraphOpHandler]], type[NpuGraphOpHandler]]:
    """Class decorator: the handler of operators with these names, "op" or "op.overload"."""
    listed = [names] if isinstance(names, str) else list(names)

    def register(handler: type[NpuGraphOpHandler]) -> type[NpuGraphOpHandler]:
        for name in listed:
            _handlers[name] = handler
        return handler

    return register


def _names(func: Any) -> tuple[str, str]:
    packet = func._schema.name.partition("::")[2]
    return f"{packet}.{func._overloadname}", packet


def handler_of(func: Any) -> type[NpuGraphOpHandler] | None:
    return next((_handlers[name] for name in _names(func) if name in _handlers), None)


@dataclass(frozen=True)
class _Layout:
    shape: torch.Size
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, tensor: torch.Tensor) -> _Layout:
        return cls(tensor.shape, tensor.stride(), tensor.dtype, tensor.device)

    def empty(self) -> torch.Tensor:
        return torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device=self.device)


class UpdatableCall:
    """A recorded call: tensors are passed at each run, host arguments are stored here."""

    def __init__(
        self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], specs: Sequence[Spec] = ()
    ) -> None:
        self._func = func
        self.number = next(_numbers)
        given = by_name(func, args, kwargs)
        self._name_of_key = {
            key: where if kind == "kwarg" else func._schema.arguments[where].name
            for kind, where, key in specs
        }
        self.host = {name: given.pop(name, None) for name in self._name_of_key.values()}
        self._leaves, self._structure = tree_flatten(given)
        self._places = [i for i, x in enumerate(self._leaves) if isinstance(x, torch.Tensor)]
        self.tensors = [self._leaves[i] for i in self._places]
        for i in self._places:
            self._leaves[i] = None
        self._written = [
            a.name
            for a in func._schema.arguments
            if a.alias_info is not None and a.alias_info.is_write and a.name in given
        ]
        self._fresh: list[int] = []
        self._layouts: list[_Layout] = []
        _calls[self.number] = self

    @property
    def op(self) -> str:
        return str(self._func)

    @property
    def keys(self) -> list[str]:
        return list(self._name_of_key)

    def finish(self, results: Any) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """The tensors that the call made, and those that it wrote; releases its operands."""
        operands = {id(tensor) for tensor in self.tensors}
        leaves = tree_leaves(results)
        self._fresh = [
            i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor) and id(x) not in operands
        ]
        fresh = [leaves[i] for i in self._fresh]
        values = tree_unflatten(self._with(self.tensors), self._structure)
        written = tree_leaves([values[name] for name in self._written])
        self._layouts = [_Layout.of(x) for x in (*fresh, *written)]
        self.tensors = []
        return fresh, written

    def _with(self, tensors: Sequence[torch.Tensor]) -> list[Any]:
        leaves = list(self._leaves)
        for place, tensor in zip(self._places, tensors, strict=True):
            leaves[place] = tensor
        return leaves

    def run(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The results of the call, then the new contents of what it writes."""
        given = tree_unflatten(self._with(tensors), self._structure)
        for name in self._written:
            given[name] = tree_map_only(torch.Tensor, torch.clone, given[name])
        leaves = tree_leaves(self._func(**given, **self.host))
        results = [leaves[i] for i in self._fresh]
        results += tree_leaves([given[name] for name in self._written])
        for result, layout in zip(results, self._layouts, strict=True):
            if result.shape != layout.shape:
                raise RuntimeError(
                    f"{self.op} with {self.host} returns a tensor of size {list(result.shape)}; "
                    f"{list(layout.shape)} was recorded, and replays can't change sizes"
                )
        memory = {tensor.untyped_storage()._cdata for tensor in tensors}
        return [r.clone() if r.untyped_storage()._cdata in memory else r for r in results]

    def like_results(self) -> list[torch.Tensor]:
        return [layout.empty() for layout in self._layouts]

    def result_in_place_of_a_run(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The result of a call that is not run: the tensors that it would write, or
        uninitialised ones."""
        if self._written:
            written = [by_name(self._func, args, kwargs)[name] for name in self._written]
            return written[0] if len(written) == 1 else tuple(written)
        results = self.like_results()
        return results[0] if len(self._func._schema.returns) == 1 else tuple(results)

    def check(self, key: str, value: Any) -> None:
        old = self.host[self._name_of_key[key]]
        if isinstance(old, torch.Tensor):
            fits = isinstance(value, torch.Tensor) and value.shape == old.shape
            wanted = f"a tensor of size {list(old.shape)}"
        elif old is None or isinstance(old, (list, tuple)):
            listed = value if isinstance(value, (list, tuple)) else [value]
            fits = all(isinstance(x, int) and not isinstance(x, bool) for x in listed)
            wanted = "ints"
        else:
            fits, wanted = isinstance(value, type(old)), str(type(old))
        if not fits:
            raise RuntimeError(f"update of {self.op}: {key!r} must be {wanted}, got {value!r}")

    def assign(self, key: str, value: Any) -> None:
        self.host[self._name_of_key[key]] = (
            value.clone() if isinstance(value, torch.Tensor) else value
        )


Change = tuple[UpdatableCall, str, Any]  # key and value
_numbers = itertools.count()
_calls: weakref.WeakValueDictionary[int, UpdatableCall] = weakref.WeakValueDictionary()


def _run(tensors: list[torch.Tensor], number: int) -> list[torch.Tensor]:
    return _calls[number].run(tensors)


def _like_results(tensors: list[torch.Tensor], number: int) -> list[torch.Tensor]:
    return _calls[number].like_results()


_library.impl("updatable_call", _run, "CompositeExplicitAutograd")
torch.library.register_fake("gex::updatable_call", _like_results, lib=_library)


def by_name(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    names = [argument.name for argument in func._schema.arguments]
    return {**dict(zip(names, args)), **kwargs}


def open_call(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> UpdatableCall:
    """The record of a call of which everything but its tensors may change."""
    given = by_name(func, args, kwargs)
    is_tensor = {
        name: any(isinstance(x, torch.Tensor) for x in tree_leaves(v)) for name, v in given.items()
    }
    specs = [("kwarg", name, name) for name in given if not is_tensor[name]]
    return UpdatableCall(func, args, kwargs, specs)


def make_call(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> UpdatableCall:
    """The record of a call whose operator has a handler."""
    specs = handler_of(func).UPDATE_SPECS  # type: ignore[union-attr]
    for name in _names(func):
        if name in specs:
            return UpdatableCall(func, args, kwargs, specs[name])
    raise RuntimeError(f"the handler of {func} has no UPDATE_SPECS for it, only {sorted(specs)}")


def assign(calls: Sequence[UpdatableCall], given: Any) -> None:
    """Sets new arguments: one dict for each call, or one for all. Applies all of them, or none."""
    if not calls:
        raise RuntimeError(
            "update(): no updatable operator was recorded, so nothing can be updated"
        )
    if not isinstance(given, (list, tuple)) or not all(isinstance(d, Mapping) for d in given):
        raise RuntimeError(f"update() takes a list of dicts, got {given!r}")
    if len(given) not in (1, len(calls)):
        raise RuntimeError(
            f"update() got {len(given)} dicts for {len(calls)} recorded updatable calls "
            f"({', '.join(call.op for call in calls)}): pass one for each, or one for all"
        )
    apply(_changes(calls, given))


def apply(changes: Sequence[Change]) -> None:
    for call, key, value in changes:
        call.check(key, value)
    for call, key, value in changes:
        call.assign(key, value)


def _changes(calls: Sequence[UpdatableCall], given: Sequence[Mapping[str, Any]]) -> list[Change]:
    known = sorted({key for call in calls for key in call.keys})
    for_all = len(given) == 1
    changes = []
    for call, values in zip(calls, itertools.cycle(given)):
        for key, value in values.items():
            if key in call.keys:
                changes.append((call, key, value))
            elif not for_all or key not in known:
                close = difflib.get_close_matches(key, known, n=1)
                hint = f"; did you mean {close[0]!r}?" if close else "."
                raise RuntimeError(
                    f"update of {call.op}: unknown key {key!r}{hint} It has: {call.keys}"
                )
    return changes


@register_npu_graph_handler(
    ["npu_fused_infer_attention_score", "npu_fused_infer_attention_score_v2"]
)
class _FusedInferAttention(NpuGraphOpHandler):
    UPDATE_SPECS: ClassVar = {
        "npu_fused_infer_attention_score": [
            ("kwarg", "actual_seq_lengths", "actual_seq_lengths"),
            ("kwarg", "actual_seq_lengths_kv", "actual_seq_lengths_kv"),
        ],
        "npu_fused_infer_attention_score_v2": [
            ("kwarg", "actual_seq_qlen", "actual_seq_qlen"),
            ("kwarg", "actual_seq_kvlen", "actual_seq_kvlen"),
        ],
    }


@register_npu_graph_handler("_npu_paged_attention")
class _PagedAttention(NpuGraphOpHandler):
    UPDATE_SPECS: ClassVar = {"_npu_paged_attention": [("kwarg", "context_lens", "context_lens")]}
