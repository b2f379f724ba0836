"""NPUGraph and `with graph(g):`: the calls made inside become one Program that replays them."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from gex.captures import error_mode
from gex.captures.pools import graph_pool_handle
from gex.debug.capture_trace import trace_of
from gex.environment import is_on
from gex.options import super_kernel
from gex.recording.recorder import Recorder
from gex.recording.replays import Replays
from gex.recording.updates import Change

_capturing: NPUGraph | None = None


def is_current_stream_capturing() -> bool:
    return _capturing is not None and _capturing._is_of_this_thread()


def current_graph() -> NPUGraph | None:
    """The graph that records the calls of this thread."""
    return _capturing if is_current_stream_capturing() else None


def current_recorder(action: str) -> Recorder:
    graph = current_graph()
    if graph is None or graph._recorder is None:
        raise RuntimeError(f"{action}() outside of a capture of this thread")
    return graph._recorder


class NPUGraph:
    """Tensors made during a capture keep their memory; each replay writes them again."""

    def __init__(self, keep_graph: bool = False) -> None:
        self._recorder: Recorder | None = None
        self._capture: error_mode.Capture | None = None
        self._replays: Replays | None = None
        self._pool: Any = None
        self._generators: list[torch.Generator] = [torch.default_generator]
        self._seeds: list[int] = []
        self._random_states: list[torch.Tensor] = []
        self._module: Any = None
        self._report: Any = None
        self._dispatches_updates = False

    def capture_begin(
        self,
        pool: Any = None,
        capture_error_mode: str = "global",
        auto_dispatch_capture: bool = False,
    ) -> None:
        global _capturing
        error_mode.check(capture_error_mode)
        if _capturing is not None:
            raise RuntimeError("another capture is in progress: a process can make one at a time")
        if self._replays is not None:
            raise RuntimeError(
                "this graph already has a capture: reset() it, or create another graph"
            )
        self._pool = pool
        self._dispatches_updates = auto_dispatch_capture
        self._seeds = [generator.initial_seed() for generator in self._generators]
        self._random_states = [generator.get_state() for generator in self._generators]
        self._recorder = Recorder(auto_dispatch_capture, self._generators)
        self._recorder.__enter__()
        self._capture = error_mode.begin("an NPUGraph", capture_error_mode, is_recording=True)
        _capturing = self

    def _is_of_this_thread(self) -> bool:
        return self._capture is not None and self._capture.thread == threading.get_ident()

    def capture_end(self) -> None:
        if _capturing is not self or self._capture is None:
            raise RuntimeError("capture_end() without capture_begin()")
        if not self._is_of_this_thread():
            raise RuntimeError("capture_end() in another thread than capture_begin()")
        spoilt_by = self._capture.spoilt_by
        recorder = self._abandon()
        seeds = [generator.initial_seed() for generator in self._generators]
        for generator, state in zip(self._generators, self._random_states, strict=True):
            generator.set_state(state)
        if seeds != self._seeds:
            recorder.restore()
            raise RuntimeError(
                "the random generator was seeded during the capture, which a replay can't repeat: "
                "seed it before"
            )
        if spoilt_by is not None:
            recorder.restore()
            raise RuntimeError(f"the capture is invalid: {spoilt_by} was called during it")
        with torch.no_grad():
            self._compile(recorder)

    def _abandon(self) -> Recorder:
        """Ends the recording, successful or not."""
        global _capturing
        assert self._recorder is not None and self._capture is not None
        error_mode.end(self._capture)
        recorder, self._recorder, self._capture, _capturing = self._recorder, None, None, None
        recorder.__exit__(None, None, None)
        return recorder

    def _compile(self, recorder: Recorder) -> None:
        from gex import report
        from gex.dynamo import backends

        recording = recorder.finish()
        options = {"use_graph_pool": self.pool()}
        with report.collect() as graphs:
            run = backends.npugraph_ex(recording.module, recording.inputs, options=options)
        self._report = graphs[-1] if graphs else None
        self._module = recording.module
        self._replays = Replays(recording, run)

    def _recorded(self, action: str) -> Replays:
        if self._replays is None:
            raise RuntimeError(f"{action}() before a capture: nothing was recorded")
        return self._replays

    def replay(self) -> None:
        self._recorded("replay").replay()

    def reset(self) -> None:
        self._replays = self._module = self._report = None

    def pool(self) -> Any:
        """The handle passed to the capture, or this graph's own."""
        if self._pool is None:
            self._pool = graph_pool_handle()
        return self._pool

    def register_generator_state(self, generator: torch.Generator) -> None:
        """Must be called before the capture if that draws from the generator."""
        if _capturing is self:
            raise RuntimeError("register_generator_state() during the capture: call it before")
        if generator not in self._generators:
            self._generators.append(generator)

    def enable_debug_mode(self) -> None:
        """A no-op: debug_dump is always available."""

    def debug_dump(self, path: str) -> None:
        """Writes the recorded operators as JSON; `<path>.aligned.json` is a trace of the
        Program's steps, after the first replay."""
        self._recorded("debug_dump")
        steps = [
            {"name": node.name, "op": str(node.target), "args": [str(a) for a in node.args]}
            for node in self._module.graph.nodes
            if node.op == "call_function"
        ]
        report = self._report.text() if self._report is not None else ""
        Path(path).write_text(json.dumps({"steps": steps, "program": report}, indent=1))
        runner = None if self._report is None else self._report.runner
        captures = [] if runner is None else runner.steps
        trace = trace_of(captures[0] if captures else [])
        Path(path).with_suffix(".aligned.json").write_text(json.dumps(trace, indent=1))

    def super_kernel_optimize(
        self,
        optimize_options: Mapping[str, Any] | None = None,
        debug_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Checks the options; kernels are fused when a recording is compiled, so nothing is left
        to merge."""
        self._recorded("super_kernel_optimize")
        for name, known, given in (
            ("optimize_options", super_kernel.OPTIMIZE_OPTIONS, optimize_options),
            ("debug_options", super_kernel.DEBUG_OPTIONS, debug_options),
        ):
            super_kernel.check_options(known)(name, given)
        if self._report is not None:
            self._report.notes.append(super_kernel.NOTHING_MERGED)

    def update(self, cpu_update_input: Any) -> None:
        """Sets new host arguments of the updatable calls: one dict for each, or one for all."""
        if not self._dispatches_updates:
            raise RuntimeError("update() needs a capture with auto_dispatch_capture=True")
        self._recorded("update").update(cpu_update_input)

    def update_calls(self, changes: Sequence[Change]) -> None:
        self._recorded("graph_task_update_end").update_calls(changes)


class graph:
    """`with graph(g):` records the operators that run inside; `g.replay()` runs them."""

    def __init__(
        self,
        npu_graph: NPUGraph,
        pool: Any = None,
        stream: Any = None,
        auto_dispatch_capture: bool = False,
        capture_error_mode: str = "global",
    ) -> None:
        from gex.npu.streams import Stream, StreamContext

        self._graph = npu_graph
        self._pool = pool
        self._mode = capture_error_mode
        self._dispatches_updates = auto_dispatch_capture
        self._stream = StreamContext(Stream() if stream is None else stream)

    def __enter__(self) -> None:
        if is_on("TORCH_NPUGRAPH_GC"):
            gc.collect()
        self._stream.__enter__()
        try:
            self._graph.capture_begin(self._pool, self._mode, self._dispatches_updates)
        except BaseException:
            self._stream.__exit__()
            raise

    def __exit__(self, kind: Any, *_: Any) -> None:
        self._stream.__exit__()
        if kind is not None:
            self._graph._abandon().restore()
        else:
            self._graph.capture_end()
