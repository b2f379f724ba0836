"""A built graph and its compiled form."""

from __future__ import annotations

import atexit
import html
import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from gex import pass_files
from gex._gex import es as _es
from gex.es.resources import Allocator, ThreadPool
from gex.options.engine_options import ENGINE_OPTIONS, EngineOption, named_texts

if TYPE_CHECKING:
    import numpy as np

# Called with the results or the error.
Callback = Callable[[Union["list[np.ndarray]", None], Exception | None], object]

_dumps = itertools.count()
_pending: set[Future[Any]] = set()
# A thread that takes the GIL after the interpreter is finalised would end the process.
atexit.register(lambda: wait(tuple(_pending)))
_LEVELS = {"graph": 0, "kernels": 1, "program": 2, "passes": 3}


def _arrays(given: Sequence[Any]) -> list[Any]:
    if not isinstance(given, (list, tuple)):
        raise TypeError(f"expected a list of arrays, got {type(given).__name__}")
    return list(given)


def _resources(allocator: Allocator | None, pool: ThreadPool | None) -> tuple[Any, Any, Any, int]:
    """In the form that the extension takes."""
    for given, kind in ((allocator, Allocator), (pool, ThreadPool)):
        if given is not None and not isinstance(given, kind):
            raise TypeError(f"expected a gex.es.{kind.__name__}, got {type(given).__name__}")
    return (
        allocator.allocate if allocator else None,
        allocator.release if allocator else None,
        pool.submit if pool else None,
        pool.threads if pool else 1,
    )


def compile_options() -> dict[str, EngineOption]:
    """The options of Graph.compile by name: type, default, help, ..."""
    return {option.name: option for option in ENGINE_OPTIONS}


class Program:
    """A compiled graph, for any sizes that the graph's symbols allow."""

    def __init__(self, native: _es.Program) -> None:
        self._native = native

    input_count = property(lambda self: self._native.input_count)
    output_count = property(lambda self: self._native.output_count)

    @staticmethod
    def load(
        path: str | Path,
        *,
        allocator: Allocator | None = None,
        thread_pool: ThreadPool | None = None,
        **options: Any,
    ) -> Program:
        """Loads a file written by save(), in this or another process. Of the options of compile()
        only those of the session apply."""
        resources = _resources(allocator, thread_pool)
        return Program(_es.Program.load(str(path), named_texts(options), resources))

    def save(self, path: str | Path) -> None:
        """Writes a file for another process with the same build on the same kind of processor;
        neither the graph nor the passes and ops that made it are needed there."""
        self._native.save(str(path))

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> list[Any]:
        """NumPy arrays (or CPU tensors of anything with DLPack) in, NumPy arrays out, or results
        written into `outputs`. Arrays of variables are written."""
        if outputs is None:
            return self._native.run(_arrays(inputs))
        for k, output in enumerate(outputs):
            if not getattr(getattr(output, "flags", None), "writeable", True):
                raise ValueError(f"output {k} can't be written: the array is read-only")
        return self._native.run(_arrays(inputs), _arrays(outputs))

    def run_async(
        self, inputs: Sequence[Any], callback: Callback | None = None
    ) -> Future[list[np.ndarray]]:
        """Returns at once; a thread of the program runs such calls in order and calls `callback`
        with (results, None) or (None, error). The arrays must not change until then."""
        future: Future[list[np.ndarray]] = Future()

        def done(results: list[np.ndarray] | None, error: Exception | None) -> None:
            try:
                if callback is not None:
                    callback(results, error)
            finally:
                _pending.discard(future)
                if error is None:
                    future.set_result(results or [])
                else:
                    future.set_exception(error)

        _pending.add(future)
        try:
            self._native.run_async(_arrays(inputs), done)
        except BaseException:
            _pending.discard(future)
            raise
        return future

    def print(self, level: str = "program") -> str:
        if level not in _LEVELS:
            raise ValueError(f"unknown level {level!r}; use one of {', '.join(_LEVELS)}")
        return self._native.print(_LEVELS[level])

    def report(self) -> str:
        """A readable report: stage times, counts, what was not fused and why, autotune results
        so far."""
        return self._native.report()

    def counters(self) -> dict[str, int]:
        return self._native.counters()

    Run, RunAsync, Print, Report, Counters = run, run_async, print, report, counters
    Save, Load = save, load


class Graph:
    """A finished graph: it can be printed, compiled and run, but not changed."""

    def __init__(self, native: _es.Graph) -> None:
        self._native = native

    input_count = property(lambda self: self._native.input_count)
    output_count = property(lambda self: self._native.output_count)

    @staticmethod
    def parse(text: str) -> Graph:
        return Graph(_es.Graph.parse(text))

    def print(self) -> str:
        """The text form (docs/text.md), which parse() reads back."""
        return self._native.print()

    def print_abbreviated(self) -> str:
        """Shortened for reading: at most the first and last three values of a constant."""
        return self._native.print_abbreviated()

    def print_onnx(self) -> str:
        """For viewers: an ONNX model in protobuf text format, with gex's own ops."""
        return self._native.print_onnx()

    def dump_to_file(
        self, path: str | Path | None = None, *, format: str = "readable", suffix: str = ""
    ) -> Path:
        """Writes print_abbreviated(), print() or print_onnx(): format "readable", "txt" or
        "onnx". Without a path the file is ge_<format>_<n>_<suffix>.txt (.pbtxt for onnx) in the
        current folder, where n counts such dumps."""
        printed = {"readable": self.print_abbreviated, "txt": self.print, "onnx": self.print_onnx}
        if format not in printed:
            raise ValueError(f"unknown format {format!r}; use one of {', '.join(printed)}")
        if path is None:
            ending = "pbtxt" if format == "onnx" else "txt"
            path = f"ge_{format}_{next(_dumps)}_{suffix}.{ending}"
        Path(path).write_text(printed[format]())
        return Path(path)

    def get_attr(self, name: str) -> str:
        """A label of the graph in text form: 3, true, "a"."""
        return self._native.label(name)

    def compile(
        self,
        *,
        allocator: Allocator | None = None,
        thread_pool: ThreadPool | None = None,
        **options: Any,
    ) -> Program:
        """The options of C++'s CompileOptions, under the same names; compile_options() lists them
        with types and defaults."""
        pass_files.load_environment()
        resources = _resources(allocator, thread_pool)
        return Program(self._native.compile(named_texts(options), resources))

    def run(self, inputs: Sequence[Any]) -> list[np.ndarray]:
        """Compiles and runs once."""
        return self.compile().run(inputs)

    def __str__(self) -> str:
        return self.print()

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.print())}</pre>"

    def __copy__(self) -> Graph:
        raise RuntimeError("a Graph can't be copied; it never changes, so share it")

    def __deepcopy__(self, memo: object) -> Graph:
        return self.__copy__()

    Print, Compile, Run, Parse = print, compile, run, parse
