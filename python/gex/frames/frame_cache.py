"""Caches frames of plain torch.compile in the folder of GEX_CACHE_DIR or
TORCH_NPU_COMPILE_CACHE_DIR.

A later process neither traces nor compiles a frame whose guards hold: Dynamo is given the code and
the guards of the earlier one. Only frames that are one graph without gradients are kept, and only
for options that need nothing around a call.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gex import _gex
from gex.cache.saved_graph import CannotBeKept, GraphRecord
from gex.compat import dynamo_frames
from gex.compat.dynamo_frame_hook import TracedFrame
from gex.debug import debug_folder
from gex.frames import cache_files, cache_key
from gex.frames.cache_files import Entry, Record
from gex.options.engine_options import ENGINE_OPTIONS
from gex.options.table import Config

_VARIABLES = ("GEX_CACHE_DIR", "TORCH_NPU_COMPILE_CACHE_DIR")
_FOLDER = "frame"
_GRAPH_NAME = "__compiled_fn"  # how Dynamo's names of graphs begin
_RESUMES = "torch_dynamo_resume"  # how names of code after a graph break begin
# Options of the engine, and others that need nothing around calls or while a graph is traced.
_KEPT_OPTIONS = {
    *(name for row in ENGINE_OPTIONS for name in (row.torch_name, row.npugraph_ex_name) if name),
    "gears",
    "gears_only",
    "triton.cudagraphs",
    "regions",
    "random",
    "strict",
    "clone_input",
    "remove_noop_ops",
    "frozen_parameter",
    "force_recapture",
    "reuse_graph_pool_in_same_fx",
}

_record: GraphRecord | None = None  # of the frame that is being traced; one at a time


def current_record() -> GraphRecord | None:
    """Receives the entry of the graph that the backend is compiling."""
    return _record


def compiled_frame(
    frame: TracedFrame, backend: str, config: Config, trace: Callable[[], Any]
) -> Any:
    """The compiled form of a frame: a matching entry of the cache, or a new trace."""
    file = _file_of(frame, backend, config)
    if file is None:
        return trace()
    found = file.fitting(frame)
    return file.traced(frame, trace) if found is None else found


def _root() -> Path | None:
    return next((Path(os.environ[v]).absolute() for v in _VARIABLES if os.environ.get(v)), None)


def _file_of(frame: TracedFrame, backend: str, config: Config) -> FrameFile | None:
    root = _root()
    request = frame.request()
    if (
        root is None
        or torch.is_grad_enabled()
        or request.mode is not None
        or not config.changed().keys() <= _KEPT_OPTIONS
        or "guard_filter_fn" in request.options
        or debug_folder.wanted()
        or frame.code.co_name.startswith(_RESUMES)
    ):
        return None
    key = _digest(frame, backend, config)
    return FrameFile(root / _FOLDER / key / cache_key.FILE_NAME, key, backend, config)


def _digest(frame: TracedFrame, backend: str, config: Config) -> str:
    """Digest of the code, the modules that it can call, the options, and the compiler's version."""
    parts = [sys.version, torch.__version__, _gex.engine_build(), backend]
    parts += [f"dynamic {frame.request().dynamic}", cache_key.value_text(config.changed())]
    parts += [frame.code.co_filename, *cache_key.code_parts(frame.code)]
    for module in frame.modules():
        parts += cache_key.module_parts(module)
    parts += [str(torch.get_deterministic_debug_mode()), str(cache_key.Ranks().folder())]
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        digest.update(f"{len(encoded)}:".encode() + encoded)
    return digest.hexdigest()[:32]


@dataclass(frozen=True)
class FrameFile:
    """The entries of one frame."""

    path: Path
    key: str
    backend: str
    config: Config

    # --- lookup -------------------------------------------------------------------------------

    def fitting(self, frame: TracedFrame) -> Any:
        """The compiled form of the first entry whose guards hold; None if there is none."""
        for entry in self._entries():
            try:
                if (found := self._restored(entry, frame)) is not None:
                    return found
            except Exception as problem:
                # For any fault of an entry, tracing again is correct.
                self._warn(f"an entry can't be used and is replaced: {problem!r}")
                self._drop(entry)
        return None

    def _entries(self) -> list[Entry]:
        try:
            record = cache_files.read(self.path, self.key)
        except Exception as problem:
            self._warn(f"it can't be used and is replaced: {problem}")
            return []
        return [] if record is None else record.entries

    def _restored(self, entry: Entry, frame: TracedFrame) -> Any:
        from gex.frames import cached_frame, restored_graph

        if not cached_frame.sources_are_unchanged(entry):
            raise cache_files.BadCacheFile("the source of a function that was traced has changed")
        guards = cached_frame.guards_of(entry, frame.code, frame.globals)
        if not guards.check(frame.locals) or not cached_frame.objects_are_the_same(entry, frame):
            return None
        graph = restored_graph.callable_of(entry.graph, self.backend, self.config, "")
        code = cached_frame.code_of(entry, frame.globals, graph)
        return dynamo_frames.guarded_code(code, frame.code, guards)

    # --- insertion ----------------------------------------------------------------------------

    def traced(self, frame: TracedFrame, trace: Callable[[], Any]) -> Any:
        """Traces the frame, and saves the result if another process can use it."""
        global _record
        watch = _Watch(frame)
        before, _record = _record, GraphRecord("")
        try:
            with dynamo_frames.traces_seen(watch.look):
                result = trace()
            with contextlib.suppress(CannotBeKept):  # as most graphs with breaks
                self._keep(watch.entry(_record))
        except OSError as problem:
            self._warn(f"the frame is not cached: {problem}")
        finally:
            _record = before
        return result

    def _keep(self, entry: Entry) -> None:
        with self._changed() as record:
            others = [e for e in record.entries if e.key() != entry.key()]
            record.entries = [entry, *others]

    def _drop(self, entry: Entry) -> None:
        with self._changed() as record:
            record.entries = [e for e in record.entries if e.key() != entry.key()]

    @contextlib.contextmanager
    def _changed(self) -> Iterator[Record]:
        with cache_files.locked(self.path):
            try:
                record = cache_files.read(self.path, self.key)
            except cache_files.BadCacheFile:
                record = None
            record = record or Record(self.path.parent.name, repr(self.config), self.key)
            yield record
            cache_files.write(self.path, record)

    def _warn(self, what: str) -> None:
        warnings.warn(f"compile cache: {self.path}: {what}", UserWarning, stacklevel=2)


class _Watch:
    """Data collected during the trace of a frame."""

    def __init__(self, frame: TracedFrame) -> None:
        self._frame = frame
        self._known = set(frame.globals)
        self._traced: Any = None
        self._why_not = "it was not traced"

    def look(self, code: types.CodeType, traced: Any) -> None:
        """Builds the guards to save; Dynamo itself builds those of this process."""
        from gex.frames import cached_frame

        if code is not self._frame.code:
            return
        try:
            self._traced = cached_frame.traced_once(traced, self._frame, _GRAPH_NAME)
        except Exception as problem:  # any kind: pickling runs user code
            self._why_not = f"its guards can't be pickled: {problem}"

    def entry(self, record: GraphRecord) -> Entry:
        if self._traced is None:
            raise CannotBeKept(self._why_not)
        frame = self._frame
        return self._traced.entry(record.saved(), frame.code, frame.globals, self._known)
