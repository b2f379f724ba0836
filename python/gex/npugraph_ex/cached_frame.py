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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from gex.cache.saved_graph import CannotBeKept, SavedGraph
from gex.compat import dynamo_frames
from gex.npugraph_ex.cache_files import Entry

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
        self._env = self._output.get_runtime_env()
        self.frame = Frame(
            self._env.forward_callable(
                self._backend_id, graph, extra_globals=self._function.__globals__
            ),
            checks.guard_manager,
        )

    def _checks(self, traced: dynamo_frames.TracedFrame) -> Any:
        code = self._function.__code__
        try:
            return traced.guards(code, _kept_guards)
        except Exception as problem:  # any kind: pickling runs user code
            self._why_not = f"its guards can't be pickled: {problem}"
            return traced.guards_of_this_process(code)

    def entry(self, graph: SavedGraph) -> Entry:
        """CannotBeKept if another process could not run the frame."""
        if self._why_not:
            raise CannotBeKept(self._why_not)
        imports = {name: (module, "") for name, module in self._env.import_sources.items()}
        for name in self._env.external_refs - self._known_globals - imports.keys():
            if name.startswith(_BUILTINS_PREFIX) or name == self._backend_id:
                continue
            if name in self._function.__globals__:
                imports[name] = _importable(name, self._function.__globals__[name])
            elif not hasattr(builtins, name):
                raise CannotBeKept(f"its frame needs {name}, which is not defined")
        code = dynamo_frames.saved_code(self._env.bytecode)
        try:
            pickle.dumps(code)
            guards = _guards_of(self._guards_state, self._function)
        except Exception as problem:  # any kind: pickling runs user code
            raise CannotBeKept(f"its frame can't be pickled: {problem}") from problem
        if not guards.check(self._scope):
            raise CannotBeKept(
                f"a guard does not hold any more: {guards.check_verbose(self._scope)}"
            )
        used = {n for n in self._function.__globals__ if n.startswith(_BUILTINS_PREFIX)}
        return Entry(
            code=code,
            guards=self._guards_state,
            backend_id=self._backend_id,
            imports=imports,
            builtins=tuple(sorted(used)),
            sources=_digests({code.co_filename for code in self._output.traced_code}),
            graph=graph,
            inputs=self._inputs,
        )


def restore(entry: Entry, func: Callable[..., Any], graph: Graph) -> Frame:
    """The frame of another process, bound to this process's function and graph."""
    function: Any = getattr(func, "__func__", func)
    scope = function.__globals__
    for name, (module, path) in entry.imports.items():
        if name not in scope:
            scope[name] = _imported(module, path)
    for name in entry.builtins:
        scope.setdefault(name, builtins.__dict__)
        _never_give(name)
    scope[entry.backend_id] = graph
    guards = _guards_of(entry.guards, function)
    run = types.FunctionType(
        dynamo_frames.restored_code(entry.code),
        scope,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    run.__kwdefaults__ = function.__kwdefaults__
    return Frame(run, guards)


def _guards_of(state: bytes, function: types.FunctionType) -> Any:
    return dynamo_frames.loaded_guards(state, function, _TIMER)


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


def _kept_guards(guards: Sequence[Any]) -> list[bool]:
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
