"""Padding up to gears, splitting above the largest, and undoing both."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from gex.options.shape_handling import BATCH, SEQUENCE, ShapeConfig, parse_configs

Tensors = list[torch.Tensor]
Hook = Callable[[Any], Any]


@dataclass(frozen=True)
class Chunk:
    """A part of the batch: rows [begin, end), padded to `rows`."""

    begin: int
    end: int
    rows: int


@dataclass
class Record:
    """What was done to the tensors of one call."""

    padded: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """(tensor, dim): size as it was and as it became, for sequences."""
    batched: dict[int, int] = field(default_factory=dict)  # tensor: its batch dim
    chunks: list[Chunk] = field(default_factory=list)  # empty: no batch dim
    too_long: int | None = None  # a sequence above the largest gear

    @property
    def changes_nothing(self) -> bool:
        whole = not self.chunks or (
            len(self.chunks) == 1
            and self.chunks[0].end - self.chunks[0].begin == self.chunks[0].rows
        )
        return not self.padded and whole


def plan(configs: Sequence[ShapeConfig], tensors: Sequence[torch.Tensor]) -> Record:
    """Plans the padding and splitting without applying it."""
    record = Record()
    for config in configs:
        if config.kind == SEQUENCE:
            _plan_sequence(config, tensors, record)
        else:
            _plan_batch(config, tensors, record)
    return record


def _plan_sequence(config: ShapeConfig, tensors: Sequence[torch.Tensor], record: Record) -> None:
    for i, tensor in enumerate(tensors):
        dim = config.dim_of(i, tensor.dim())
        if dim is None:
            continue
        size = tensor.shape[dim]
        gear = config.gear_for(size)
        if gear is None:
            record.too_long = size
        elif gear != size:
            record.padded[i, dim] = (size, gear)


def _plan_batch(config: ShapeConfig, tensors: Sequence[torch.Tensor], record: Record) -> None:
    dims = {i: config.dim_of(i, t.dim()) for i, t in enumerate(tensors)}
    record.batched = {i: dim for i, dim in dims.items() if dim is not None}
    sizes = {tensors[i].shape[dim] for i, dim in record.batched.items()}
    if len(sizes) > 1:
        raise ValueError(f"tensors of one batch have different sizes: {sorted(sizes)}")
    if not sizes:
        return
    size, most = sizes.pop(), config.gears[-1]
    for begin in range(0, max(size, 1), most):
        end = min(size, begin + most)
        record.chunks.append(Chunk(begin, end, config.gear_for(end - begin) or most))


def apply(
    configs: Sequence[ShapeConfig], tensors: Sequence[torch.Tensor], record: Record
) -> list[Tensors]:
    """The tensors of each part. Differentiable."""
    values = {config.kind: config.value for config in configs}
    padded = list(tensors)
    for (i, dim), (size, gear) in record.padded.items():
        padded[i] = pad(padded[i], dim, gear - size, values[SEQUENCE])
    groups = []
    chunks: Sequence[Chunk | None] = record.chunks or [None]
    for chunk in chunks:
        group = list(padded)
        for i, dim in record.batched.items():
            if chunk is None:
                continue
            rows = group[i].narrow(dim, chunk.begin, chunk.end - chunk.begin)
            group[i] = pad(rows, dim, chunk.rows - (chunk.end - chunk.begin), values[BATCH])
        groups.append(group)
    return groups


def pad(tensor: torch.Tensor, dim: int, count: int, value: float) -> torch.Tensor:
    if count == 0:
        return tensor
    shape = list(tensor.shape)
    shape[dim] = count
    return torch.cat([tensor, tensor.new_full(shape, value)], dim)


class NPUShapeHandling:
    """`transform` makes groups of bucketed tensors, `recover` joins the results of all groups
    without the padding. In between, the record of a call is kept per thread; each `transform`
    starts a new one."""

    def __init__(
        self,
        configs: Any = None,
        transform_pre_fn: Hook | None = None,
        transform_post_fn: Hook | None = None,
        recover_pre_fn: Hook | None = None,
        recover_post_fn: Hook | None = None,
    ) -> None:
        self._configs = parse_configs(configs)
        self._before, self._after = transform_pre_fn, transform_post_fn
        self._before_recovery, self._after_recovery = recover_pre_fn, recover_post_fn
        self._of_thread = threading.local()

    def register_batch_size_strategy(self, config: dict[str, Any]) -> None:
        self._replace({**config, "type": BATCH})

    def register_sequence_strategy(self, config: dict[str, Any]) -> None:
        self._replace({**config, "type": SEQUENCE})

    def _replace(self, config: dict[str, Any]) -> None:
        (new,) = parse_configs([config])
        self._configs = (*(c for c in self._configs if c.kind != new.kind), new)

    def transform(self, tensors: Sequence[torch.Tensor]) -> list[Tensors]:
        if self._before is not None:
            tensors = self._before(tensors)
        record = plan(self._configs, tensors)
        if record.too_long is not None:
            raise RuntimeError(f"a sequence of {record.too_long} is above the largest gear")
        groups = apply(self._configs, tensors, record)
        self._of_thread.record = record
        return groups if self._after is None else self._after(groups)

    def recover(self, groups: Sequence[Sequence[torch.Tensor]]) -> Tensors:
        record: Record | None = self._of_thread.__dict__.pop("record", None)
        if record is None:
            raise RuntimeError("recover() must follow a transform() in the same thread")
        if self._before_recovery is not None:
            groups = self._before_recovery(groups)
        if record.chunks and len(groups) != len(record.chunks):
            raise ValueError(f"{len(record.chunks)} groups were made, but got {len(groups)}")
        dims = set(record.batched.values())
        dim = dims.pop() if dims else 0
        sequences = {gear: (d, size) for (_, d), (size, gear) in record.padded.items()}
        results = [_join(parts, record.chunks, dim) for parts in zip(*groups, strict=True)]
        results = [_without_padding(result, sequences) for result in results]
        return results if self._after_recovery is None else self._after_recovery(results)


def _join(parts: Sequence[torch.Tensor], chunks: Sequence[Chunk], dim: int) -> torch.Tensor:
    trimmed = []
    for part, chunk in zip(parts, chunks):
        if part.dim() <= dim or part.shape[dim] != chunk.rows:
            if len(chunks) == 1:
                return part
            raise ValueError(
                f"a result of shape {tuple(part.shape)} lacks the {chunk.rows} rows in dim {dim}: "
                "parts of a split batch can't be joined"
            )
        trimmed.append(part.narrow(dim, 0, chunk.end - chunk.begin))
    if not trimmed:
        return parts[0]
    return trimmed[0] if len(trimmed) == 1 else torch.cat(trimmed, dim)


def _without_padding(result: torch.Tensor, sequences: dict[int, tuple[int, int]]) -> torch.Tensor:
    for gear, (dim, size) in sequences.items():
        if result.dim() > dim and result.shape[dim] == gear:
            result = result.narrow(dim, 0, size)
    return result
