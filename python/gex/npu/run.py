"""The command line: runs a script, module or command as Python would, with the shim installed."""

from __future__ import annotations

import importlib.util
import io
import os
import sys
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType, TracebackType
from typing import Any

import gex.npu
from gex.npu.errors import CannotStart
from gex.npu.spawn import run_children_with_shim

USAGE = """\
usage: python -m gex.npu script.py [argument ...]
       python -m gex.npu -m module [argument ...]
       python -m gex.npu -c command [argument ...]

Runs a program written for Ascend NPUs on CUDA or, without it, on the CPU.
GEX_NPU_DEVICE=cpu or GEX_NPU_DEVICE=cuda in the environment chooses.
"""


def main(arguments: list[str]) -> int:
    if arguments and arguments[0] in ("-h", "--help"):
        sys.stdout.write(USAGE)
        return 0
    if not arguments or (arguments[0] in ("-m", "-c") and len(arguments) < 2):
        sys.stderr.write(USAGE)
        return 2
    try:
        program = _load(arguments)
        gex.npu.install()
        run_children_with_shim()
        program.run()
    except CannotStart as problem:
        sys.stderr.write(f"{sys.executable}: {problem}\n")
        return 2
    except SystemExit:
        raise
    except BaseException:
        _hide_our_frames()
        raise
    return 0


@dataclass
class Program:
    """The program to run as the main module, and its process state."""

    module: ModuleType
    code: CodeType
    argv: list[str]
    path: str  # first entry of sys.path

    def run(self) -> None:
        sys.argv[:] = self.argv
        if not getattr(sys.flags, "safe_path", False):
            sys.path[0] = self.path
        sys.modules["__main__"] = self.module
        exec(self.code, self.module.__dict__)


def _load(arguments: list[str]) -> Program:
    first, *rest = arguments
    if first == "-c":
        code = compile(rest[0], "<string>", "exec", dont_inherit=True)
        return Program(_fresh_main(), code, ["-c", *rest[1:]], "")
    if first == "-m":
        spec, code = _find_module(rest[0])
        module = _fresh_main(
            __spec__=spec,
            __loader__=spec.loader,
            __package__=spec.parent,
            __file__=spec.origin,
            __cached__=spec.cached,
        )
        return Program(module, code, [spec.origin or rest[0], *rest[1:]], os.getcwd())
    path = os.path.abspath(first)
    code = compile(_read(path), path, "exec", dont_inherit=True)
    module = _fresh_main(__loader__=SourceFileLoader("__main__", path), __file__=path)
    return Program(module, code, arguments, os.path.dirname(os.path.realpath(path)))


def _fresh_main(**attributes: Any) -> ModuleType:
    module = ModuleType("__main__")
    module.__dict__.update(__builtins__=__builtins__, __annotations__={}, **attributes)
    return module


def _read(path: str) -> bytes:
    try:
        with io.open_code(path) as file:
            return file.read()
    except OSError as problem:
        reason = f"[Errno {problem.errno}] {problem.strerror}"
        raise CannotStart(f"can't open file {path!r}: {reason}") from None


def _find_module(name: str) -> tuple[ModuleSpec, CodeType]:
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except ModuleNotFoundError as problem:
        raise CannotStart(f"Error while finding module {name!r}: {problem}") from None
    if spec is None:
        raise CannotStart(f"No module named {name}")
    get_code = getattr(spec.loader, "get_code", None)
    code = get_code(spec.name) if get_code is not None else None
    if code is None:
        raise CannotStart(f"No code object available for {spec.name}")
    return spec, code


def _hide_our_frames() -> None:
    """Shows an uncaught error as if the program had been started by Python itself."""
    show = sys.excepthook

    def show_trimmed(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        while traceback is not None and _is_ours(traceback):
            traceback = traceback.tb_next
        show(kind, error.with_traceback(traceback), traceback)

    sys.excepthook = show_trimmed


def _is_ours(traceback: TracebackType) -> bool:
    name = traceback.tb_frame.f_globals.get("__name__", "")
    if name == "runpy":
        return True
    return os.path.dirname(traceback.tb_frame.f_code.co_filename) == os.path.dirname(__file__)
