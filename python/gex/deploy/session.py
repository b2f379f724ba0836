"""gex.load: a model file as a session."""

from __future__ import annotations

import ctypes as c
import itertools
import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from gex.deploy.library import (
    OK,
    RUN_CALLBACK,
    CLoadOptions,
    CRunOptions,
    CSessionOptions,
    CTensor,
    CTensorInfo,
    RunError,
    check,
    library,
    text_from,
)
from gex.deploy.tensors import NAMES, Borrowed, array_from, is_torch, torch_from


@dataclass(frozen=True)
class TensorInfo:
    """An input or output. Sizes that may vary are given as names: ("batch", 3, 224, 224)."""

    name: str
    dtype: str  # of its memory: "f32"
    type: str  # as the source model names it: "float32", "uint16"
    shape: tuple[int | str, ...]


class Cancel:
    """Cancels the runs that it was passed to, from another thread."""

    def __init__(self) -> None:
        self._handle = c.c_void_p()
        check(library().gex_cancel_create(c.byref(self._handle)))

    def request(self) -> None:
        check(library().gex_cancel_request(self._handle))

    def __del__(self) -> None:
        library().gex_cancel_destroy(self._handle)


class Model:
    """A loaded file. Sessions of one model share its weights and code."""

    def __init__(
        self,
        source: str | os.PathLike[str] | bytes | memoryview,
        *,
        trust: bool = False,
        check_weights: bool = False,
        autotune: bool = False,
        level: str | None = None,
        model: str | None = None,
        key: bytes | None = None,
    ) -> None:
        options = CLoadOptions(
            c.sizeof(CLoadOptions),
            trust,
            check_weights,
            autotune,
            level.encode() if level else None,
            model.encode() if model else None,
            key,
            len(key) if key else 0,
        )
        self._handle = c.c_void_p()
        lib = library()
        if isinstance(source, (bytes, memoryview)):
            self._bytes = bytes(source)
            data = c.cast(c.c_char_p(self._bytes), c.c_void_p)
            place = c.byref(self._handle)
            size = len(self._bytes)
            check(lib.gex_model_load_memory(data, size, c.byref(options), place))
        else:
            path = os.fsencode(os.fspath(source))
            check(lib.gex_model_load(path, c.byref(options), c.byref(self._handle)))
        self.inputs = self._infos(lib.gex_model_input_count, lib.gex_model_input)
        self.outputs = self._infos(lib.gex_model_output_count, lib.gex_model_output)

    @property
    def name(self) -> str:
        return text_from(library().gex_model_name, self._handle)

    @property
    def code(self) -> str:
        """What runs: "machine code (v4)", "llvm (znver4, 64-byte vectors)"..."""
        return text_from(library().gex_model_code, self._handle)

    def _infos(self, count_of: Any, get: Any) -> tuple[TensorInfo, ...]:
        count = c.c_size_t()
        check(count_of(self._handle, c.byref(count)))
        infos = []
        for k in range(count.value):
            info = CTensorInfo(c.sizeof(CTensorInfo))
            check(get(self._handle, k, c.byref(info)))
            shape: tuple[int | str, ...] = tuple(
                info.shape[d] if info.shape[d] >= 0 else (info.sizes[d] or b"").decode()
                for d in range(info.rank)
            )
            name, kind = (info.name or b"").decode(), (info.type or b"").decode()
            infos.append(TensorInfo(name, NAMES[info.dtype], kind, shape))
        return tuple(infos)

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            library().gex_model_destroy(self._handle)


class Session:
    """Runs a model. Threads may run one session at the same time; calls release the GIL.

    Inputs are NumPy arrays, PyTorch tensors or anything with DLPack, without a copy if they are
    contiguous. Results are PyTorch tensors if an input is one, else NumPy arrays."""

    def __init__(
        self,
        model: Model,
        *,
        threads: int = 0,
        capture_limit: int = 64,
        async_limit: int = 1024,
    ) -> None:
        self.model = model
        options = CSessionOptions(
            c.sizeof(CSessionOptions), threads, capture_limit, async_limit, 1, 0, None, None
        )
        self._handle = c.c_void_p()
        check(library().gex_session_create(model._handle, c.byref(options), c.byref(self._handle)))
        self._waiting: dict[int, Any] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._callback = RUN_CALLBACK(self._finish)

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        return self.model.inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        return self.model.outputs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """One result, or a tuple of them."""
        results = self._run(self._ordered(args, kwargs), None, None)
        return results[0] if len(results) == 1 else tuple(results)

    def run(
        self,
        inputs: Mapping[str, Any] | Sequence[Any],
        *,
        timeout: float | None = None,
        cancel: Cancel | None = None,
    ) -> dict[str, Any]:
        """Inputs by name or in order; results by name. `timeout` is in seconds."""
        results = self._run(self._values(inputs), timeout, cancel)
        return {info.name: result for info, result in zip(self.outputs, results)}

    def run_async(
        self,
        inputs: Mapping[str, Any] | Sequence[Any],
        *,
        timeout: float | None = None,
        cancel: Cancel | None = None,
    ) -> Future[dict[str, Any]]:
        """Calls of one session are made in order. RunError with status "busy" if too many wait."""
        call = _Call(self._values(inputs), len(self.outputs), timeout, cancel)
        number = next(self._numbers)
        with self._lock:
            self._waiting[number] = call
        status = library().gex_program_run_async_with(
            self._handle,
            call.inputs,
            len(call.inputs),
            call.outputs,
            len(call.outputs),
            c.byref(call.options),
            self._callback,
            number,
        )
        if status != OK:
            with self._lock:
                del self._waiting[number]
            check(status)
        return call.future

    def _finish(self, number: int, status: int, message: bytes) -> None:
        with self._lock:
            call = self._waiting.pop(number)
        if status != OK:
            call.future.set_exception(RunError(status, message.decode(errors="replace")))
            return
        results = call.results()
        call.future.set_result({info.name: result for info, result in zip(self.outputs, results)})

    def _run(self, values: list[Any], timeout: float | None, cancel: Cancel | None) -> list[Any]:
        call = _Call(values, len(self.outputs), timeout, cancel)
        check(
            library().gex_program_run_with(
                self._handle,
                call.inputs,
                len(call.inputs),
                call.outputs,
                len(call.outputs),
                c.byref(call.options),
            )
        )
        return call.results()

    def _values(self, inputs: Mapping[str, Any] | Sequence[Any]) -> list[Any]:
        if isinstance(inputs, Mapping):
            return self._ordered((), inputs)
        return self._ordered(tuple(inputs), {})

    def _ordered(self, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        names = [info.name for info in self.inputs]
        unknown = [name for name in named if name not in names]
        missing = [name for name in names[len(args) :] if name not in named]
        if unknown or missing or len(args) + len(named) != len(names):
            raise TypeError(
                f"the model takes {', '.join(names) or 'no inputs'}; missing: "
                f"{', '.join(missing) or 'none'}, unknown: {', '.join(unknown) or 'none'}, "
                f"given in order: {len(args)}"
            )
        return [*args, *(named[name] for name in names[len(args) :])]

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            library().gex_program_destroy(self._handle)


class _Call:
    """The memory that a call uses."""

    def __init__(
        self, values: list[Any], outputs: int, timeout: float | None, cancel: Cancel | None
    ) -> None:
        self._borrowed = [Borrowed(value) for value in values]
        self._cancel = cancel
        self._as_torch = any(is_torch(value) for value in values)
        self.inputs = (CTensor * len(values))(*(b.tensor for b in self._borrowed))
        self.outputs = (CTensor * outputs)(
            *(CTensor(c.sizeof(CTensor), 1, None, 0, None, None, None) for _ in range(outputs))
        )
        self.options = CRunOptions(
            c.sizeof(CRunOptions),
            0,
            cancel._handle if cancel is not None else None,
            int(timeout * 1e9) if timeout else 0,
        )
        self.future: Future[dict[str, Any]] = Future()

    def results(self) -> list[Any]:
        convert = torch_from if self._as_torch else array_from
        results = []
        for output in self.outputs:
            mine = CTensor()
            c.pointer(mine)[0] = output
            results.append(convert(mine))
        return results


def load(
    source: str | os.PathLike[str] | bytes | memoryview | Model,
    *,
    trust: bool = False,
    threads: int = 0,
    check_weights: bool = False,
    autotune: bool = False,
    level: str | None = None,
    model: str | None = None,
    key: bytes | None = None,
    capture_limit: int = 64,
    async_limit: int = 1024,
) -> Session:
    """A session of a model file that `gex compile` or `Compiled.save` wrote.

    `trust=True` runs the file's machine code: only for files whose origin you know. Without it,
    its kernels are compiled from their text. With `key` the file must be signed with that key
    (`gex compile --key`), which is then trust. `threads` limits what one run uses (0: all).
    """
    if not isinstance(source, Model):
        source = Model(
            source,
            trust=trust,
            check_weights=check_weights,
            autotune=autotune,
            level=level,
            model=model,
            key=key,
        )
    return Session(source, threads=threads, capture_limit=capture_limit, async_limit=async_limit)
