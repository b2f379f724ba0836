"""NPUGraph and `with graph(g):`: the calls made inside become one Program that replays them."""

from __future__ import annotations

import gc
import json
import os
from pathlib import Path
from typing import Any

import torch

from gex.recording.recorder import Recorder, Recording

_ERROR_MODES = ("global", "thread_local", "relaxed")
_capturing: NPUGraph | None = None


def is_current_stream_capturing() -> bool:
    return _capturing is not None


class NPUGraph:
    """Tensors that a capture makes keep their memory; each replay fills them anew."""

    def __init__(self, keep_graph: bool = False) -> None:
        self._recorder: Recorder | None = None
        self._recording: Recording | None = None
        self._run: Any = None
        self._pool: Any = None
        self._seed = 0
        self._random_state: torch.Tensor | None = None
        self._report: Any = None

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        global _capturing
        if capture_error_mode not in _ERROR_MODES:
            raise ValueError(
                f"capture_error_mode {capture_error_mode!r} not in optional list "
                f"{list(_ERROR_MODES)}"
            )
        if _capturing is not None:
            raise RuntimeError("another capture is under way: one at a time in a process")
        if self._run is not None:
            raise RuntimeError("this graph holds a capture already: reset() it, or make another")
        self._pool = pool
        self._seed = torch.default_generator.initial_seed()
        self._random_state = torch.default_generator.get_state()
        self._recorder = Recorder()
        self._recorder.__enter__()
        _capturing = self

    def capture_end(self) -> None:
        if _capturing is not self or self._recorder is None:
            raise RuntimeError("capture_end() without capture_begin()")
        recorder = self._abandon()
        assert self._random_state is not None
        if torch.default_generator.initial_seed() != self._seed:
            torch.default_generator.set_state(self._random_state)
            raise RuntimeError(
                "the random generator was seeded during the capture, which no replay could repeat: "
                "seed it before"
            )
        torch.default_generator.set_state(self._random_state)
        with torch.no_grad():
            self._recording = recorder.finish()
            self._compile(self._recording)

    def _abandon(self) -> Recorder:
        """Ends the recording, whatever became of it."""
        global _capturing
        assert self._recorder is not None
        recorder, self._recorder, _capturing = self._recorder, None, None
        recorder.__exit__(None, None, None)
        return recorder

    def _compile(self, recording: Recording) -> None:
        from gex import report, torch_backend

        with report.collect() as graphs:
            self._run = torch_backend.npugraph_ex(recording.module, recording.inputs)
        self._report = graphs[-1] if graphs else None

    def replay(self) -> None:
        if self._run is None or self._recording is None:
            raise RuntimeError("replay() before a capture: nothing is recorded")
        with torch.no_grad():
            self._run(*self._recording.inputs)

    def reset(self) -> None:
        self._run = self._recording = self._report = None

    def pool(self) -> Any:
        return self._pool

    def register_generator_state(self, generator: torch.Generator) -> None:
        """Replays draw from PyTorch's generators anyway."""

    def enable_debug_mode(self) -> None:
        """What debug_dump writes is always known."""

    def debug_dump(self, path: str) -> None:
        """The recorded operators as JSON, with sizes, in their order."""
        if self._recording is None:
            raise RuntimeError("debug_dump() before a capture: nothing is recorded")
        steps = [
            {"name": node.name, "op": str(node.target), "args": [str(a) for a in node.args]}
            for node in self._recording.module.graph.nodes
            if node.op == "call_function"
        ]
        report = self._report.text() if self._report is not None else ""
        Path(path).write_text(json.dumps({"steps": steps, "program": report}, indent=1))

    def update(self, cpu_update_input: Any) -> None:
        raise RuntimeError(
            "update() needs a capture with auto_dispatch_capture=True that holds an operator with "
            "lengths on the host; this one has none"
        )


class graph:
    """`with graph(g):` records what runs inside; `g.replay()` runs it."""

    def __init__(
        self,
        npu_graph: NPUGraph,
        pool: Any = None,
        stream: Any = None,
        auto_dispatch_capture: bool = False,
        capture_error_mode: str = "global",
    ) -> None:
        self._graph = npu_graph
        self._pool = pool
        self._mode = capture_error_mode

    def __enter__(self) -> None:
        if os.environ.get("TORCH_NPUGRAPH_GC", "0") == "1":
            gc.collect()
        self._graph.capture_begin(self._pool, self._mode)

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is not None:
            self._graph._abandon()
        else:
            self._graph.capture_end()
