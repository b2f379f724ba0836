"""`shape_handling(fn)`: calls a compiled function with bucketed sizes only."""

from __future__ import annotations

import functools
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from gex.compat.dynamo import uncompiled
from gex.compat.pytree import TreeSpec, tree_flatten, tree_unflatten
from gex.options.shape_handling import parse_configs
from gex.shape_handling import padding_safety
from gex.shape_handling.transform import Chunk, Record, apply, plan

_HOOKS = ("trans_pre_fn", "trans_post_fn", "re_pre_fn", "re_post_fn")
_MAX_KNOWN = 1024  # number of cached result sizes


def shape_handling(
    fn: Callable[..., Any],
    configs: Any = None,
    hooks: Mapping[str, Callable[[Any], Any]] | None = None,
) -> ShapeHandled:
    """`fn` called only with sizes that are gears: inputs are padded and split, results trimmed
    and joined. Sizes for which that can't be shown to be safe are used unchanged."""
    return ShapeHandled(fn, configs, hooks or {})


class ShapeHandled:
    """`counts`: number of calls by treatment: as they are, padded, split, refused, too_long."""

    def __init__(
        self, fn: Callable[..., Any], configs: Any, hooks: Mapping[str, Callable[[Any], Any]]
    ) -> None:
        unknown = [name for name in hooks if name not in _HOOKS]
        if unknown:
            raise ValueError(f"unknown hooks {unknown}; use {list(_HOOKS)}")
        self._fn = fn
        self._configs = parse_configs(configs)
        self._hooks = hooks
        self._refused: dict[Any, str | None] = {}
        self._known_sizes: dict[Any, list[Any]] = {}
        self.counts: Counter[str] = Counter()
        functools.update_wrapper(self, fn, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, spec = tree_flatten((args, kwargs))
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        tensors = self._hooked("trans_pre_fn", [leaves[i] for i in places])
        record = plan(self._configs, tensors)
        if record.too_long is not None:
            self.counts["too_long"] += 1
            return self._fn(*args, **kwargs)
        if record.changes_nothing:
            self.counts["as they are"] += 1
            return self._fn(*args, **kwargs)
        call = _Call(leaves, spec, places)
        if self._why_not(call, tensors, record) is not None:
            self.counts["refused"] += 1
            return self._fn(*args, **kwargs)
        self.counts["split" if len(record.chunks) > 1 else "padded"] += 1
        groups = self._hooked("trans_post_fn", apply(self._configs, tensors, record))
        results = []
        out_spec: TreeSpec | None = None
        for group in groups:
            arguments, keywords = call.with_tensors(group)
            flat, out_spec = tree_flatten(self._fn(*arguments, **keywords))
            results.append(flat)
        results = self._hooked("re_pre_fn", results)
        joined = self._join(call, tensors, record, results)
        return tree_unflatten(self._hooked("re_post_fn", joined), out_spec)

    def _hooked(self, name: str, value: Any) -> Any:
        hook = self._hooks.get(name)
        return value if hook is None else hook(value)

    def _why_not(self, call: _Call, tensors: Sequence[torch.Tensor], record: Record) -> str | None:
        key = (call.key(), len(record.chunks) > 1, bool(record.padded))
        if key not in self._refused:
            reason = self._refused[key] = self._objection(call, tensors, record)
            if reason is not None:
                warnings.warn(
                    f"shape handling: sizes are used unchanged, because {reason}", stacklevel=3
                )
        return self._refused[key]

    def _objection(
        self, call: _Call, tensors: Sequence[torch.Tensor], record: Record
    ) -> str | None:
        inner = uncompiled(self._fn)
        runs = [
            padding_safety.watch(inner, *call.with_tensors(apply(self._configs, tensors, sized)[0]))
            for sized in (_resized(record, 0), _resized(record, 1))
        ]
        reason = padding_safety.why_not(*runs)
        if reason is not None or len(record.chunks) <= 1:
            return reason
        for k, (one, other) in enumerate(zip(runs[0].outputs, runs[1].outputs)):
            if one is None or one == other:
                return f"result {k} does not have the batch that is split"
        return None

    def _join(
        self,
        call: _Call,
        tensors: Sequence[torch.Tensor],
        record: Record,
        results: Sequence[Sequence[Any]],
    ) -> list[Any]:
        """Results without padding: with the sizes that the function returns for the original
        inputs."""
        parts = []
        chunks: Sequence[Chunk | None] = record.chunks or [None]
        for chunk, flat in zip(chunks, results):
            own = apply(self._configs, tensors, _unpadded(record, chunk))[0]
            parts.append([_trim(r, size) for r, size in zip(flat, self._sizes(call, own))])
        if len(parts) == 1:
            return parts[0]
        return [torch.cat(column, _batch_dim(column, record)) for column in zip(*parts)]

    def _sizes(self, call: _Call, tensors: Sequence[torch.Tensor]) -> list[Any]:
        key = (call.key(), tuple(tensor.shape for tensor in tensors))
        if len(self._known_sizes) > _MAX_KNOWN:
            self._known_sizes.clear()
        if key not in self._known_sizes:
            run = padding_safety.watch(uncompiled(self._fn), *call.with_tensors(tensors))
            self._known_sizes[key] = run.outputs
        return self._known_sizes[key]


class _Call:
    """The arguments of a call with replaceable tensors."""

    def __init__(self, leaves: list[Any], spec: TreeSpec, places: list[int]) -> None:
        self._leaves, self._spec, self._places = leaves, spec, places

    def with_tensors(self, tensors: Sequence[torch.Tensor]) -> tuple[tuple[Any, ...], dict]:
        leaves = list(self._leaves)
        for i, tensor in zip(self._places, tensors):
            leaves[i] = tensor
        return tree_unflatten(leaves, self._spec)

    def key(self) -> Any:
        return tuple(
            (leaf.dim(), leaf.dtype) if isinstance(leaf, torch.Tensor) else repr(leaf)
            for leaf in self._leaves
        )


def _resized(record: Record, more: int) -> Record:
    """The first part of a call, with one more row of padding."""
    chunks = [Chunk(c.begin, c.end, c.end - c.begin + 1 + more) for c in record.chunks[:1]]
    padded = {k: (size, size + 1 + more) for k, (size, _) in record.padded.items()}
    return Record(padded, record.batched, chunks)


def _unpadded(record: Record, chunk: Chunk | None) -> Record:
    chunks = [] if chunk is None else [Chunk(chunk.begin, chunk.end, chunk.end - chunk.begin)]
    return Record({}, record.batched, chunks)


def _trim(result: Any, sizes: tuple[int, ...] | None) -> Any:
    if not isinstance(result, torch.Tensor) or sizes is None:
        return result
    for dim, size in enumerate(sizes):
        if result.shape[dim] != size:
            result = result.narrow(dim, 0, size)
    return result


def _batch_dim(column: Sequence[torch.Tensor], record: Record) -> int:
    """The dim along which the parts of a result are joined: the one with the rows of its part."""
    dims = sorted(set(record.batched.values()))
    for dim in (*dims, *range(column[0].dim())):
        sizes = [part.shape[dim] for part in column]
        if sizes == [c.end - c.begin for c in record.chunks]:
            return dim
    raise ValueError("a result of a split batch has no dim of its number of rows")
