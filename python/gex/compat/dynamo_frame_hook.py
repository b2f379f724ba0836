"""A hook around Dynamo's trace of a frame: what is compiled, and by which backend."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch._dynamo import convert_frame


@dataclass(frozen=True)
class CompileCall:
    """The arguments of torch.compile."""

    backend: Any  # the function
    options: Mapping[str, Any]
    mode: str | None
    dynamic: bool | None


@dataclass(frozen=True)
class TracedFrame:
    """A frame that Dynamo is about to trace."""

    code: types.CodeType
    globals: dict[str, Any]
    locals: dict[str, Any]
    closure: tuple[Any, ...]
    compiler: Any

    def request(self) -> CompileCall:
        compiler = self.compiler
        while hasattr(compiler, "_torchdynamo_orig_backend"):
            compiler = compiler._torchdynamo_orig_backend
        given = getattr(compiler, "kwargs", {})
        return CompileCall(
            getattr(compiler, "compiler_fn", compiler),
            given.get("options") or {},
            given.get("mode"),
            getattr(compiler, "dynamic", None),
        )

    def modules(self) -> Iterator[nn.Module]:
        """Modules that the code can call: arguments, closed-over variables, globals that it names.

        A module inside another is not listed separately.
        """
        found = [module for value in self._values() if (module := _module_of(value)) is not None]
        inner = {inside for module in found for inside in module.modules() if inside is not module}
        yield from dict.fromkeys(module for module in found if module not in inner)

    def _values(self) -> Iterator[Any]:
        yield from self.locals.values()
        for cell in self.closure or ():
            with contextlib.suppress(ValueError):  # an empty cell
                yield cell.cell_contents
        yield from (self.globals[name] for name in self.code.co_names if name in self.globals)


def _module_of(value: Any) -> nn.Module | None:
    value = getattr(value, "__self__", value) if isinstance(value, types.MethodType) else value
    return value if isinstance(value, nn.Module) else None


def install(hook: Callable[[TracedFrame, Callable[[], Any]], Any]) -> None:
    """Makes `hook` compile each frame from now on; it may call Dynamo's own compile."""
    compile_frame = convert_frame._compile

    @functools.wraps(compile_frame)
    def _compile(
        code: Any, globals: Any, locals: Any, builtins: Any, closure: Any, *args: Any, **kwargs: Any
    ) -> Any:
        compiler = args[0] if args else kwargs["compiler_fn"]
        frame = TracedFrame(code, globals, locals, closure, compiler)
        return hook(
            frame,
            lambda: compile_frame(code, globals, locals, builtins, closure, *args, **kwargs),
        )

    convert_frame._compile = _compile
