"""Saves the frame that Dynamo made of a function, and restores it in another process.

The frame's bytecode runs with the live function: its globals, closure, defaults, and the module
whose method it is, from which it takes parameters by path. Guards on object identity are
meaningless in another process and are omitted; instead, the source files of the traced code are
compared.
"""

from __future__ import annotations

import builtins
import hashlib
import importlib
import operator
import pickle
import types
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gex.cache.saved_graph import CannotBeKept, SavedGraph
from gex.compat import dynamo_frames
from gex.compat.dynamo_frame_hook import TracedFrame
from gex.frames.cache_files import Entry
from gex.frames.cache_key import code_parts

# Parts of a function that are covered by comparing its source file.
_PARTS_OF_FUNCTIONS = (
    ".__code__",
    ".__defaults__",
    ".__kwdefaults__",
    ".__closure__",
    ".__globals__",
)
_TORCH_FOLDER = str(Path(torch.__file__).parent)
_TIMER = "cache_compile"  # name of PyTorch's timer for this tracing
_BUILTINS_PREFIX = "__builtins_dict__"

Graph = Callable[..., Any]
GraphMaker = Callable[[torch.fx.GraphModule, Sequence[Any]], Graph]


class Frame:
    """A traced variant of a function, which runs if its guards hold."""

    def __init__(self, run: Callable[..., Any], guards: Any) -> None:
        self.run = run
        self._guards = guards

    def fits(self, scope: dict[str, Any]) -> bool:
        return self._guards.check(scope)

    def why_not(self, scope: dict[str, Any]) -> str:
        return str(self._guards.check_verbose(scope))


class Capture:
    """Traces a function for these arguments and compiles its graph."""

    def __init__(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        dynamic: bool,
        make_graph: GraphMaker,
    ) -> None:
        self._function: Any = getattr(func, "__func__", func)
        self._known_globals = set(self._function.__globals__)
        self._backend_id = ""
        self._why_not = ""
        self._inputs: tuple[str, ...] = ()
        graph: Graph | None = None

        def compile_graph(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Graph:
            nonlocal graph
            graph = make_graph(gm, inputs)
            self._backend_id = gm.meta["backend_id"]
            self._inputs = tuple(n.name for n in gm.graph.find_nodes(op="placeholder"))
            return graph

        with dynamo_frames.traced_frame(
            func, args, kwargs, dynamic, compile_graph, _TIMER
        ) as traced:
            if graph is None:
                raise ValueError(
                    f"cache_compile: {self._function.__qualname__} computes nothing with tensors"
                )
            self._output = traced.output
            checks = self._checks(traced)
        self._guards_state = checks.guards_state
        self._scope = traced.scope
        self.frame = Frame(
            self._output.get_runtime_env().forward_callable(
                self._backend_id, graph, extra_globals=self._function.__globals__
            ),
            checks.guard_manager,
        )

    def _checks(self, traced: dynamo_frames.TracedFrame) -> Any:
        code = self._function.__code__
        try:
            return traced.guards(code, kept_guards)
        except Exception as problem:  # any kind: pickling runs user code
            self._why_not = f"its guards can't be pickled: {problem}"
            return traced.guards_of_this_process(code)

    def entry(self, graph: SavedGraph) -> Entry:
        """CannotBeKept if another process could not run the frame."""
        if self._why_not:
            raise CannotBeKept(self._why_not)
        code, scope = self._function.__code__, self._function.__globals__
        traced = TracedOnce(
            self._output, self._guards_state, self._scope, self._backend_id, self._inputs
        )
        return traced.entry(graph, code, scope, self._known_globals)


@dataclass(frozen=True)
class TracedOnce:
    """Dynamo's result for a frame that is one graph."""

    output: Any  # GraphCaptureOutput
    guards: bytes
    scope: dict[str, Any]  # locals that the guards look at
    backend_id: str
    inputs: tuple[str, ...] = ()
    objects: tuple[tuple[Any, str], ...] = ()

    def entry(
        self,
        graph: SavedGraph,
        original: types.CodeType,
        scope: dict[str, Any],
        known: Container[str],
    ) -> Entry:
        """CannotBeKept if another process could not run it. `known`: globals that the other process
        has too."""
        env = self.output.get_runtime_env()
        imports = {name: (module, "") for name, module in env.import_sources.items()}
        for name in env.external_refs - imports.keys():
            if name in known or name.startswith(_BUILTINS_PREFIX) or name == self.backend_id:
                continue
            if name in scope:
                imports[name] = _importable(name, scope[name])
            elif not hasattr(builtins, name):
                raise CannotBeKept(f"its frame needs {name}, which is not defined")
        code = dynamo_frames.saved_code(env.bytecode)
        try:
            pickle.dumps(code)
            guards = dynamo_frames.loaded_guards(self.guards, original, scope, _TIMER)
        except Exception as problem:  # any kind: pickling runs user code
            raise CannotBeKept(f"its frame can't be pickled: {problem}") from problem
        if not guards.check(self.scope):
            raise CannotBeKept(f"a guard no longer holds: {guards.check_verbose(self.scope)}")
        return Entry(
            code=code,
            guards=self.guards,
            backend_id=self.backend_id,
            imports=imports,
            builtins=tuple(sorted(n for n in scope if n.startswith(_BUILTINS_PREFIX))),
            sources=_digests({code.co_filename for code in self.output.traced_code}),
            graph=graph,
            inputs=self.inputs,
            objects=self.objects,
        )


def traced_once(traced: Any, frame: TracedFrame, graph_prefix: str) -> TracedOnce:
    """From a trace of torch.compile, whose guards are not built yet."""
    output = traced.graph_capture_output()
    names = [n for n in output.get_runtime_env().external_refs if n.startswith(graph_prefix)]
    if len(names) != 1:
        raise CannotBeKept(f"it consists of {len(names)} graphs")
    _check_sources(frame.code, output.traced_code)
    identities: list[tuple[Any, str]] = []

    def kept(guards: Sequence[Any]) -> list[bool]:
        chosen = kept_guards(guards)
        left_out = [g for g, is_kept in zip(guards, chosen) if not is_kept]
        identities.extend((g.orig_guard.originating_source, _identity(g.value)) for g in left_out)
        return chosen

    checks = dynamo_frames.guards_to_keep(output, frame.code, kept)
    return TracedOnce(
        output,
        checks.guards_state,
        frame.locals,
        names[0],
        objects=tuple((source, text) for source, text in identities if text),
    )


def _check_sources(frame: types.CodeType, traced: Iterable[types.CodeType]) -> None:
    """CannotBeKept if a change of code that was traced could not be noticed."""
    for code in traced:
        known = (
            code is frame  # part of the key
            or Path(code.co_filename).is_file()
            or code.co_filename.startswith("<frozen ")  # of this version of Python
            or (code.co_name.startswith("__") and code.co_name.endswith("__"))  # of a dataclass
        )
        if not known:
            raise CannotBeKept(f"{code.co_name} comes from {code.co_filename}, which is not a file")


def _identity(value: Any) -> str:
    """An identification of an object that is the same in every process; "" if it has none."""
    if isinstance(value, types.CodeType):
        return hashlib.sha256("".join(code_parts(value)).encode()).hexdigest()
    if isinstance(value, types.FunctionType):
        return f"{value.__module__}.{value.__qualname__} {_identity(value.__code__)}"
    if isinstance(value, (type, types.BuiltinFunctionType)):
        return f"{value.__module__}.{value.__qualname__}"
    return f"module {value.__name__}" if isinstance(value, types.ModuleType) else ""


def objects_are_the_same(entry: Entry, frame: TracedFrame) -> bool:
    """Whether functions, classes and modules that were guarded by identity have the same names."""
    scope: dict[str, Any] = {"G": frame.globals, "L": frame.locals}
    known: dict[Any, Any] = {}
    return all(
        _identity(dynamo_frames.value_of(source, scope, known)) == text
        for source, text in entry.objects
    )


def restore(entry: Entry, func: Callable[..., Any], graph: Graph) -> Frame:
    """The frame of another process, bound to this process's function and graph."""
    function: Any = getattr(func, "__func__", func)
    scope = function.__globals__
    guards = guards_of(entry, function.__code__, scope)
    run = types.FunctionType(
        code_of(entry, scope, graph),
        scope,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    run.__kwdefaults__ = function.__kwdefaults__
    return Frame(run, guards)


def guards_of(entry: Entry, original: types.CodeType, scope: dict[str, Any]) -> Any:
    """From an entry for this code, whose globals are `scope`."""
    for name, (module, path) in entry.imports.items():
        if name not in scope:
            scope[name] = _imported(module, path)
    for name in entry.builtins:
        scope.setdefault(name, builtins.__dict__)
        _never_give(name)
    return dynamo_frames.loaded_guards(entry.guards, original, scope, _TIMER)


def code_of(entry: Entry, scope: dict[str, Any], graph: Graph) -> types.CodeType:
    """Dynamo's code, calling `graph`."""
    scope[entry.backend_id] = graph
    return dynamo_frames.restored_code(entry.code)


def _never_give(name: str) -> None:
    """Reserves a name: Dynamo numbers its names and fails at one that is taken."""
    prefix, _, number = name.rpartition("_")
    while int(dynamo_frames.new_name(prefix).rpartition("_")[2]) < int(number):
        pass


def _importable(name: str, value: Any) -> tuple[str, str]:
    """Module and path of an object that Dynamo refers to by a generated name."""
    if isinstance(value, types.ModuleType):
        return value.__name__, ""
    module, path = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    try:
        if module and path and _imported(module, path) is value:
            return module, path
    except (ImportError, AttributeError):
        pass
    raise CannotBeKept(f"its frame needs {name}, an object of this process: {type(value)}")


def _imported(module: str, path: str) -> Any:
    value = importlib.import_module(module)
    return operator.attrgetter(path)(value) if path else value


def sources_are_unchanged(entry: Entry) -> bool:
    return _digests(set(entry.sources)) == entry.sources


def kept_guards(guards: Sequence[Any]) -> list[bool]:
    return [
        g.guard_type not in dynamo_frames.UNKEPT_GUARDS
        and not any(derived in dynamo_frames.UNKEPT_GUARDS for derived in g.derived_guard_types)
        and not g.orig_guard._unserializable
        and not any(part in g.name for part in _PARTS_OF_FUNCTIONS)
        for g in guards
    ]


def _digests(files: set[str]) -> dict[str, str]:
    """PyTorch's own files are identified by its version."""
    out = {}
    for name in sorted(files):
        path = Path(name)
        if name.startswith(_TORCH_FOLDER) or not path.is_file():
            continue
        out[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return out
