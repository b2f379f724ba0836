"""inference.cache_compile: compiles once; later processes neither trace nor compile."""

from __future__ import annotations

import functools
import inspect
import threading
import types
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from gex.cache.saved_graph import CannotBeKept, GraphRecord, SavedGraph
from gex.compat.autograd import is_profiler_enabled
from gex.frames import cache_files, cache_key
from gex.npugraph_ex.readable import readable_cache
from gex.options.table import NPUGRAPH_EX_OPTIONS, Config

__all__ = ["cache_compile", "readable_cache"]

# Folder of a function's programs and machine code, beside its file.
_PROGRAMS = "programs"


def cache_compile(
    func: Callable[..., Any],
    *,
    dynamic: bool = True,
    cache_dir: str | None = None,
    global_rank: int | None = None,
    tp_rank: int | None = None,
    pp_rank: int | None = None,
    options: Mapping[str, Any] | None = None,
    custom_decompositions: Mapping[Any, Callable[..., Any]] | None = None,
) -> Callable[..., Any]:
    """Compiles a method of a module, or a function, and caches the result for other processes.

    Nothing happens before the first call. Results have no gradient. See docs/npugraph_ex.md.
    """
    owner = getattr(func, "__self__", None)
    if isinstance(func, types.MethodType) and not isinstance(owner, torch.nn.Module):
        raise ValueError(
            f"cache_compile takes methods of torch.nn.Module, but {func.__qualname__!r} is one of "
            f"{type(owner)}"
        )
    if not isinstance(func, (types.MethodType, types.FunctionType)):
        raise ValueError(f"cache_compile takes a method or a function, got {func!r}: {type(func)}")
    Config(NPUGRAPH_EX_OPTIONS, options)
    cache_key.root_of(cache_dir)
    ranks = cache_key.Ranks(global_rank, tp_rank, pp_rank)
    cached = _Cached(func, dynamic, cache_dir, ranks, options or {}, custom_decompositions or {})
    return functools.update_wrapper(cached, func)


class _Cached:
    """The cached function: frames from the file and frames traced here."""

    def __init__(
        self,
        func: Callable[..., Any],
        dynamic: bool,
        cache_dir: str | None,
        ranks: cache_key.Ranks,
        options: Mapping[str, Any],
        decompositions: Mapping[Any, Callable[..., Any]],
    ) -> None:
        self._func = func
        self._dynamic = dynamic
        self._cache_dir = cache_dir
        self._ranks = ranks
        self._options = options
        self._decompositions = decompositions
        self._bound = () if inspect.isfunction(func) else (func.__self__,)  # type: ignore[attr-defined]
        self._signature = inspect.signature(getattr(func, "__func__", func), follow_wrapped=False)
        self._frames: list[Any] | None = None  # None: before the first call
        self._lock = threading.RLock()

    def __reduce__(self) -> Any:
        # Modules hold the compiled forms of their methods; guards that pickle a module pickle this
        # instead.
        return _placeholder, ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not is_profiler_enabled():
            return self._call(args, kwargs)
        with torch.profiler.record_function("cache_compiler inference"):
            return self._call(args, kwargs)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with torch.no_grad():
            if self._frames is None:
                self._open()
            scope = self._scope(args, kwargs)
            for frame in self._frames or ():
                if frame.fits(scope):
                    return frame.run(*self._bound, *args, **kwargs)
            return self._compiled(args, kwargs).run(*self._bound, *args, **kwargs)

    def _scope(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The function's locals, which guards evaluate."""
        bound = self._signature.bind(*self._bound, *args, **kwargs)
        bound.apply_defaults()
        function = getattr(self._func, "__func__", self._func)
        cells = zip(function.__code__.co_freevars, function.__closure__ or ())
        return {name: cell.cell_contents for name, cell in cells} | bound.arguments

    @functools.cached_property
    def path(self) -> Path:
        digest = cache_key.digest_of(self._func, self._dynamic, self._options, self._decompositions)
        root = cache_key.root_of(self._cache_dir)
        return cache_key.file_of(root, self._func, self._dynamic, self._ranks, digest)

    @functools.cached_property
    def _key(self) -> str:
        """The path below the root: it contains the function, its digest and the rank."""
        root = cache_key.root_of(self._cache_dir)
        return self.path.parent.relative_to(root).as_posix()

    @property
    def _programs(self) -> str:
        return str(self.path.parent / _PROGRAMS)

    def _open(self) -> None:
        with self._lock:
            if self._frames is not None:
                return
            frames, useless = [], []
            for entry in self._kept_entries():
                try:
                    frames.append(self._restored(entry))
                except Exception as problem:
                    # Whatever is wrong with an entry, tracing again is always correct.
                    self._warn(f"an entry can't be used and is recomputed: {problem!r}")
                    useless.append(entry.key())
            if useless:
                self._drop(useless)
            self._frames = frames

    def _drop(self, keys: list[tuple[bytes, str]]) -> None:
        with cache_files.locked(self.path):
            record = cache_files.read(self.path, self._key)
            if record is not None:
                record.entries = [e for e in record.entries if e.key() not in keys]
                cache_files.write(self.path, record)

    def _kept_entries(self) -> list[cache_files.Entry]:
        try:
            record = cache_files.read(self.path, self._key)
        except Exception as problem:
            self._warn(f"it can't be used and is recomputed: {problem}")
            return []
        return [] if record is None else record.entries

    def _warn(self, what: str) -> None:
        warnings.warn(f"cache_compile: {self.path}: {what}", UserWarning, stacklevel=4)

    def _restored(self, entry: cache_files.Entry) -> Any:
        from gex.frames import cached_frame

        if not cached_frame.sources_are_unchanged(entry):
            raise cache_files.BadCacheFile("the source code of a traced function changed")
        return cached_frame.restore(entry, self._func, self._graph_of(entry.graph))

    def _graph_of(self, saved: SavedGraph) -> Callable[..., Any]:
        from gex.frames import restored_graph

        config = Config(NPUGRAPH_EX_OPTIONS, self._options)
        return restored_graph.callable_of(saved, "npugraph_ex", config, self._programs)

    def _compiled(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        from gex.dynamo.backends import compile_dynamo_graph
        from gex.frames import cached_frame

        with self._lock:
            record = GraphRecord(self._programs)
            capture = cached_frame.Capture(
                self._func,
                args,
                kwargs,
                self._dynamic,
                lambda gm, inputs: compile_dynamo_graph(
                    "npugraph_ex",
                    Config(NPUGRAPH_EX_OPTIONS, self._options),
                    gm,
                    inputs,
                    None,
                    self._decompositions,
                    record,
                ),
            )
            # The newest first: it matches the current caller.
            self._frames = [capture.frame, *(self._frames or ())]
            try:
                self._keep(capture.entry(record.saved()))
            except (CannotBeKept, OSError) as problem:
                self._warn(f"nothing is cached: {problem}")
            return capture.frame

    def _keep(self, entry: cache_files.Entry) -> None:
        with cache_files.locked(self.path):
            try:
                record = cache_files.read(self.path, self._key)
            except cache_files.BadCacheFile:
                record = None
            if record is None:
                options = ", ".join(f"{k}={v!r}" for k, v in sorted(self._options.items()))
                record = cache_files.Record(self._func.__qualname__, options, self._key)
            others = [e for e in record.entries if e.key() != entry.key()]
            record.entries = [entry, *others]
            cache_files.write(self.path, record)


def _placeholder() -> None:
    return None
