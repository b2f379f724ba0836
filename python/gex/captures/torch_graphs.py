"""Graphs of PyTorch's own kernels, captured by PyTorch: backend `npugraphs` on a CUDA device.

The first call with some sizes runs op by op, the second is captured, later ones launch the capture.
Arguments with the same address in the first two calls (parameters, caches) are read in place;
others are copied into memory of the capture first. Results are copied out of it, so they stay valid
as long as they are referenced. The kernels are those of eager mode, so results have the same bits.
"""

from __future__ import annotations

import threading
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch.fx import GraphModule, Node

from gex.compat.devices import close_capture_pool

Compiled = Callable[[list[Any]], Sequence[Any]]

LIMIT = 64  # captures of one graph; the least recently used one is evicted
_FAILURES = 3  # after this many failures no further capture is tried

statistics: Counter[str] = Counter()  # of this process: captures, replays, op by op, failures


class Recording(Protocol):
    """A capture of a function without arguments."""

    results: Sequence[Any]

    def replay(self) -> None: ...


class CaptureFailed(Exception):
    """The function can't be captured, for example because it waits for the device."""


class CudaRecording:
    """A capture by torch.cuda.CUDAGraph, in separate memory."""

    def __init__(self, run: Callable[[], Sequence[Any]], device: torch.device) -> None:
        self._device = device
        self._pool = torch.cuda.graph_pool_handle()
        self._graph = torch.cuda.CUDAGraph()
        generator = torch.cuda.default_generators[device.index or 0]
        state = generator.get_state()
        stream = torch.cuda.Stream(device)
        try:
            with torch.cuda.graph(
                self._graph, pool=self._pool, stream=stream, capture_error_mode="thread_local"
            ):
                self.results = run()
        except Exception as problem:
            self._recover(generator, state)
            raise CaptureFailed(str(problem).splitlines()[0]) from problem

    def replay(self) -> None:
        self._graph.replay()

    def _recover(self, generator: torch.Generator, state: torch.Tensor) -> None:
        """A failed capture leaves its pool open and the generator in capture mode: random numbers
        would fail for the rest of the process."""
        close_capture_pool(self._device.index or 0, self._pool)
        fresh = torch.Generator(self._device)
        fresh.set_state(state)
        generator.graphsafe_set_state(fresh.graphsafe_get_state())


@dataclass
class _Entry:
    """State of calls with the same sizes."""

    addresses: list[int]  # addresses of the previous call; 0: not a tensor
    recording: Recording | None = None
    arguments: list[Any] = field(default_factory=list)  # that the recording reads
    copied: list[int] = field(default_factory=list)  # positions of those in its own memory


class CapturedGraph:
    """The function `run` of a graph, called with a list of arguments."""

    def __init__(
        self,
        run: Compiled,
        gm: GraphModule,
        device: torch.device,
        notes: list[str],
        record: Callable[[Callable[[], Sequence[Any]], torch.device], Recording] = CudaRecording,
    ) -> None:
        self._run, self._device, self._record, self._notes = run, device, record, notes
        self._written = _written_inputs(gm)
        self._returned = _returned_inputs(gm)
        self._entries: OrderedDict[tuple[Any, ...], _Entry] = OrderedDict()
        self._failures = 0
        self._lock = threading.Lock()
        self._last: tuple[Any, Any] | None = None  # stream and event of the last replay
        self._boxed_call = True

    def __call__(self, arguments: list[Any]) -> Sequence[Any]:
        if self._failures >= _FAILURES or _is_captured_by_the_caller(self._device):
            return self._op_by_op(arguments)
        with self._lock:
            key = _key(arguments)
            entry = self._entries.get(key)
            addresses = [a.data_ptr() if isinstance(a, torch.Tensor) else 0 for a in arguments]
            if entry is None:
                self._entries[key] = _Entry(addresses)
                if len(self._entries) > LIMIT:
                    self._entries.popitem(last=False)
                return self._first_call(arguments)
            self._entries.move_to_end(key)
            if entry.recording is not None and self._has_moved(entry, addresses):
                entry.recording = None
            if entry.recording is None and not self._capture(entry, arguments, addresses):
                return self._op_by_op(arguments)
            return self._replay(entry, arguments)

    def _op_by_op(self, arguments: list[Any]) -> Sequence[Any]:
        statistics["op by op"] += 1
        return self._run(arguments)

    def _first_call(self, arguments: list[Any]) -> Sequence[Any]:
        """Watches for operators that wait for the device: in a capture they fail, and libraries
        like cuSOLVER then keep failing afterwards."""
        with _waits(self._device) as waits:
            results = self._op_by_op(arguments)
        if waits:
            self._failures = _FAILURES
            statistics["failures"] += 1
            self._notes.append(
                "PyTorch's kernels run one by one: an operator synchronises with the device"
            )
        return results

    @staticmethod
    def _has_moved(entry: _Entry, addresses: list[int]) -> bool:
        """Whether an argument that is read in place has another address now."""
        moved = [
            i
            for i, (new, old) in enumerate(zip(addresses, entry.addresses))
            if new != old and i not in entry.copied
        ]
        for position in moved:
            entry.addresses[position] = 0  # it is copied from now on
        return bool(moved)

    def _capture(self, entry: _Entry, arguments: list[Any], addresses: list[int]) -> bool:
        pairs = zip(arguments, addresses, entry.addresses)
        entry.copied = [i for i, (a, new, old) in enumerate(pairs) if _is_moving(a, new, old)]
        entry.arguments = [
            _same_layout(a) if i in entry.copied else a for i, a in enumerate(arguments)
        ]
        self._copy_in(entry, arguments)
        bound = list(entry.arguments)
        try:
            entry.recording = self._record(lambda: self._run(list(bound)), self._device)
        except CaptureFailed as problem:
            self._failures += 1
            statistics["failures"] += 1
            self._notes.append(f"PyTorch's kernels run one by one: no capture, {problem}")
            return False
        statistics["captures"] += 1
        entry.addresses = addresses
        # The recording holds addresses; the caller keeps the memory of arguments read in place
        # alive.
        entry.arguments = [a if i in entry.copied else None for i, a in enumerate(entry.arguments)]
        return True

    def _copy_in(self, entry: _Entry, arguments: list[Any]) -> None:
        for position in entry.copied:
            entry.arguments[position].copy_(arguments[position])

    def _replay(self, entry: _Entry, arguments: list[Any]) -> Sequence[Any]:
        assert entry.recording is not None
        self._wait_for_other_stream()
        self._copy_in(entry, arguments)
        entry.recording.replay()
        statistics["replays"] += 1
        for position in self._written:
            if position in entry.copied:
                arguments[position].copy_(entry.arguments[position])
        results = _copies(entry.recording.results)
        for place, position in self._returned.items():
            results[place] = arguments[position]
        self._remember_stream()
        arguments.clear()
        return results

    def _wait_for_other_stream(self) -> None:
        """A capture has its own memory, which its last replay may still use on another stream."""
        if self._device.type != "cuda" or self._last is None:
            return
        stream, event = self._last
        present = torch.cuda.current_stream(self._device)
        if present != stream:
            present.wait_event(event)

    def _remember_stream(self) -> None:
        if self._device.type == "cuda":
            stream = torch.cuda.current_stream(self._device)
            event = self._last[1] if self._last is not None else torch.cuda.Event()
            event.record(stream)
            self._last = (stream, event)


def captured(
    run: Compiled, gm: GraphModule, device: torch.device, notes: list[str]
) -> Compiled | None:
    """Wraps the function so that later calls are captured; None if the graph is not for one CUDA
    device."""
    if device.type != "cuda":
        return None
    for node in gm.graph.nodes:
        if _uses_solver(node):
            notes.append(f"PyTorch's kernels run one by one: {node.name} calls a solver library")
            return None
        value = node.meta.get("val")
        for tensor in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(tensor, torch.Tensor) and tensor.device != device:
                notes.append(f"PyTorch's kernels run one by one: {node.name} is on {tensor.device}")
                return None
    return CapturedGraph(run, gm, device, notes)


# Operators of cuSOLVER and MAGMA, which wait for the device without PyTorch's knowledge. A failed
# capture leaves the library's handle unusable.
_SOLVERS = ("linalg_", "_linalg_", "cholesky", "lu_", "geqrf", "ormqr", "orgqr", "lstsq", "svd")


def _uses_solver(node: Node) -> bool:
    name = getattr(node.target, "name", None)  # "aten::linalg_eigh"
    return callable(name) and str(name()).rpartition("::")[2].startswith(_SOLVERS)


@contextmanager
def _waits(device: torch.device) -> Iterator[list[str]]:
    """Collects PyTorch's warnings about operators that wait for the device."""
    found: list[str] = []
    if device.type != "cuda":
        yield found
        return
    mode = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            yield found
    finally:
        torch.cuda.set_sync_debug_mode(mode)
    for warning in seen:
        if "synchronizing CUDA operation" in str(warning.message):
            found.append(str(warning.message))
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )


def _is_captured_by_the_caller(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def _key(arguments: list[Any]) -> tuple[Any, ...]:
    return tuple(
        (a.dtype, a.shape, a.stride(), a.requires_grad) if isinstance(a, torch.Tensor) else a
        for a in arguments
    )


def _is_moving(argument: Any, address: int, before: int) -> bool:
    return isinstance(argument, torch.Tensor) and address != before and argument.numel() > 0


def _same_layout(tensor: torch.Tensor) -> torch.Tensor:
    """Memory of the same sizes and strides."""
    size = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride()))
    memory = torch.empty(size, dtype=tensor.dtype, device=tensor.device)
    return memory.as_strided(tensor.shape, tensor.stride())


def _copies(results: Sequence[Any]) -> list[Any]:
    """Tensors that share memory share it in the copies too."""
    memories: dict[int, torch.Tensor] = {}
    copies: list[Any] = []
    for result in results:
        if not isinstance(result, torch.Tensor):
            copies.append(result)
            continue
        whole = result.untyped_storage()
        key = whole.data_ptr()
        alone = sum(_shares(other, key) for other in results) == 1
        if alone and whole.nbytes() == result.numel() * result.element_size():
            copies.append(result.clone(memory_format=torch.preserve_format))
            continue
        if key not in memories:
            flat = torch.empty(0, dtype=torch.uint8, device=result.device).set_(whole)
            memories[key] = flat.clone()
        copies.append(
            torch.empty(0, dtype=result.dtype, device=result.device).set_(
                memories[key].untyped_storage(),
                result.storage_offset(),
                result.shape,
                result.stride(),
            )
        )
    return copies


def _shares(result: Any, memory: int) -> bool:
    return isinstance(result, torch.Tensor) and result.untyped_storage().data_ptr() == memory


def _inputs(gm: GraphModule) -> dict[Node, int]:
    return {node: i for i, node in enumerate(gm.graph.find_nodes(op="placeholder"))}


def _written_inputs(gm: GraphModule) -> list[int]:
    inputs, found = _inputs(gm), set()
    for node in gm.graph.nodes:
        schema = getattr(node.target, "_schema", None) if node.op == "call_function" else None
        for argument, value in zip(schema.arguments if schema else (), node.args):
            alias = argument.alias_info
            if alias is not None and alias.is_write and value in inputs:
                found.add(inputs[value])
    return sorted(found)


def _returned_inputs(gm: GraphModule) -> dict[int, int]:
    """Results that are unchanged arguments: position in the results, position in the arguments."""
    inputs = _inputs(gm)
    output = next(node for node in reversed(gm.graph.nodes) if node.op == "output")
    results = output.args[0]
    results = results if isinstance(results, (list, tuple)) else (results,)
    return {place: inputs[r] for place, r in enumerate(results) if r in inputs}
