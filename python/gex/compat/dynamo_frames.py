"""Tracing of frames by Dynamo, and their guards, without torch.compile."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch._dynamo import convert_frame
from torch._dynamo.bytecode_transformation import unique_id
from torch._dynamo.eval_frame import set_enable_dynamic
from torch._dynamo.guards import CheckFunctionManager
from torch._dynamo.hooks import Hooks
from torch._dynamo.package import SerializedCode, load_guard_manager, load_guards_state
from torch._dynamo.types import GuardedCode, wrap_guarded_code
from torch._dynamo.utils import dynamo_timed, get_metrics_context
from torch._dynamo.variables.torch_function import torch_function_mode_stack_state_mgr
from torch._guards import CompileContext, compile_context

# Kinds of guards that PyTorch does not serialise.
UNKEPT_GUARDS = frozenset(CheckFunctionManager.UNSUPPORTED_SERIALIZATION_GUARD_TYPES)


@contextlib.contextmanager
def _compiling(name: str) -> Iterator[None]:
    with (
        compile_context(CompileContext(convert_frame.get_compile_id({}))),
        get_metrics_context(),
        dynamo_timed(name),
    ):
        yield


class TracedFrame:
    """A frame that Dynamo has traced as one graph."""

    def __init__(self, frame: Any, traced: Any) -> None:
        self.scope: dict[str, Any] = frame.locals  # what guards look at
        self.output = traced.graph_capture_output(frame.argdefs, frame.kwdefaults)

    def guards(self, code: types.CodeType, kept: Callable[[Sequence[Any]], list[bool]]) -> Any:
        """The guards that `kept` selects, in serialisable form."""
        return guards_to_keep(self.output, code, kept)

    def guards_of_this_process(self, code: types.CodeType) -> Any:
        return self.output.build_guards(code)


def guards_to_keep(
    output: Any, code: types.CodeType, kept: Callable[[Sequence[Any]], list[bool]]
) -> Any:
    hooks = Hooks(guard_filter_fn=kept)
    return output.build_guards(code, hooks=hooks, save=True, strict_error=True)


def value_of(source: Any, scope: dict[str, Any], known: dict[Any, Any]) -> Any:
    """The object that a source of Dynamo refers to now; `known` caches intermediate objects."""
    return source.get_value(scope, {}, known)


@contextlib.contextmanager
def traced_frame(
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic: bool,
    compile_graph: Callable[..., Any],
    name: str,
) -> Iterator[TracedFrame]:
    """Traces a call of a function; guards of the trace can be made inside the context."""
    with _compiling(name), set_enable_dynamic(dynamic), torch_function_mode_stack_state_mgr:
        frame = convert_frame._get_frame(func, args, kwargs)
        traced = convert_frame.compile_frame(
            frame.code,
            frame.globals,
            frame.locals,
            frame.builtins,
            frame.closure,
            compiler_fn=compile_graph,
            one_graph=True,
            restart_reasons=set(),
        )
        yield TracedFrame(frame, traced)


def loaded_guards(state: bytes, code: types.CodeType, scope: dict[str, Any], name: str) -> Any:
    """Guards saved by another process, for this process's code and globals."""
    with _compiling(name):
        return load_guard_manager(load_guards_state(state), code, scope)


def saved_code(code: types.CodeType) -> Any:
    """In a form that can be pickled."""
    return SerializedCode.from_code_object(code)


def restored_code(saved: Any) -> types.CodeType:
    return SerializedCode.to_code_object(saved)


def new_name(prefix: str) -> str:
    """A unique global name in Dynamo's style: the prefix and a number."""
    return unique_id(prefix)


# --- frames of torch.compile ------------------------------------------------------------------


@contextlib.contextmanager
def traces_seen(look: Callable[[types.CodeType, Any], None]) -> Iterator[None]:
    """Inside this context, `look` is called with the code and the trace of each frame, before its
    guards are built."""
    compile_frame = convert_frame.compile_frame

    def compile_and_look(code: types.CodeType, *args: Any, **kwargs: Any) -> Any:
        traced = compile_frame(code, *args, **kwargs)
        look(code, traced)
        return traced

    convert_frame.compile_frame = compile_and_look
    try:
        yield
    finally:
        convert_frame.compile_frame = compile_frame


def guarded_code(code: types.CodeType, original: types.CodeType, guards: Any) -> Any:
    """The value that Dynamo accepts as the result of compiling the current frame."""
    compile_id = CompileContext.current_compile_id()
    convert_frame.orig_code_map[code] = original
    convert_frame.output_codes.add(code)
    annotation = f"Torch-Compiled Region: {compile_id}"
    return wrap_guarded_code(GuardedCode(code, guards, compile_id, annotation))
