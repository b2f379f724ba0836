"""gex.compile: a module or an exported program as a callable without Dynamo."""

from __future__ import annotations

import copy
import inspect
import itertools
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram

from gex import report
from gex._gex import UserError
from gex.compat.export import exported, without_composites
from gex.compat.pytree import TreeSpec, tree_flatten, tree_unflatten
from gex.compat.torch_version import warn_if_untested
from gex.errors import GraphNotSupported
from gex.export.compile_source import Source
from gex.export.exported_graph import ExportGraph, Fixed, graph_of
from gex.importer.graph_import import GraphImport
from gex.options.table import GEX_OPTIONS, Config
from gex.pipeline.runner import RunnerRequest, make_runner
from gex.report import fallback

_numbers = itertools.count(1)


def compile(
    module: Callable[..., Any] | ExportedProgram,
    example_inputs: Any = None,
    dynamic_shapes: Any = None,
    options: Mapping[str, Any] | None = None,
    *,
    example_kwargs: Mapping[str, Any] | None = None,
) -> Compiled:
    """Compiles the forward pass of a module, a function or an exported program.

    Takes the arguments of torch.export.export and the options of backend "gex". Parameters are
    bound now and must not change; results have no gradient. Buffers that a module writes (such as
    batch norm statistics in training) are written in the module; for an exported program calls
    write into copies. Both are in `state`.
    """
    warn_if_untested()
    config = Config(GEX_OPTIONS, options)
    if isinstance(module, ExportedProgram):
        if example_inputs is not None or dynamic_shapes is not None or example_kwargs:
            raise TypeError("an exported program has its inputs and shapes already: pass it alone")
        source = Source.of(module, None, None, options)
        return Compiled(without_composites(module), None, config, source)
    if not callable(module):
        raise TypeError(f"expected a module, a function or an ExportedProgram, got {type(module)}")
    if isinstance(module, torch.jit.ScriptModule):
        raise TypeError("a ScriptModule can't be traced: pass the original module")
    if example_inputs is None:
        raise TypeError("example_inputs is missing: pass a tuple with one entry per argument")
    owner = module if isinstance(module, torch.nn.Module) else _module_of(module)
    args = tuple(example_inputs) if isinstance(example_inputs, (tuple, list)) else (example_inputs,)
    leaves, spec = tree_flatten((args, dict(example_kwargs or {})))
    args, kwargs = tree_unflatten([_example(leaf) for leaf in leaves], spec)
    source = Source.of(module, (args, kwargs), dynamic_shapes, options)
    with torch.no_grad():
        program = exported(owner, args, kwargs, dynamic_shapes)
        return Compiled(program, inspect.signature(owner.forward), config, source)


def _module_of(function: Callable[..., Any]) -> torch.nn.Module:
    try:
        inspect.signature(function)
        traced = function
    except ValueError:  # written in C, such as torch.exp

        def traced(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

    module = torch.nn.Module()
    module.forward = traced
    return module


def _example(leaf: Any) -> Any:
    """A dense copy, because gaps between elements would become part of the program's layout."""
    if _is_array(leaf):
        leaf = torch.from_numpy(leaf)
    if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided:
        leaf = leaf.detach()
        is_dense = torch.ops.aten.is_non_overlapping_and_dense.default(leaf)
        return leaf if is_dense else leaf.contiguous()
    return leaf


class Compiled:
    """A compiled forward pass: called like the module, with tensors or NumPy arrays.

    Returns arrays for arrays. `state` holds the buffers that calls write, `report` describes the
    compilation.
    """

    def __init__(
        self,
        program: ExportedProgram,
        signature: inspect.Signature | None,
        config: Config,
        source: Source,
    ) -> None:
        graph = graph_of(program, copy_state=isinstance(source.module, ExportedProgram))
        self.state = graph.state
        self._source = source
        self._bound = graph.bound
        self.report = report.GraphReport(f"export_{next(_numbers)}", "compile")
        report.add(self.report)
        self._inputs = graph.inputs
        self._signature = signature
        self._in_spec: TreeSpec = program.call_spec.in_spec
        self._run = self._compile(graph, config)
        self._out_spec: TreeSpec = program.call_spec.out_spec
        self._finish = _finisher(self._out_spec)
        self._is_flat = self._in_spec == _flat_spec(len(graph.inputs)) and not any(
            isinstance(i, Fixed) for i in graph.inputs
        )

    def _compile(self, graph: ExportGraph, config: Config) -> Callable[[list[Any]], Sequence[Any]]:
        start = time.perf_counter()
        try:
            imported = GraphImport(
                graph.gm,
                self.report.name,
                strict=config.get("strict", False),
                fast_random=config.get("random", "eager") == "fast",
                ranges=graph.ranges,
            ).run()
        except GraphNotSupported as problem:
            raise UserError(f"gex.compile does not support this program: {problem}") from problem
        self.report.take(imported.outcome)
        fallback.warn_if_any(self.report)
        self.report.seconds["import"] = time.perf_counter() - start
        imported.num_arguments -= len(graph.bound)
        tensors = [tensor for _, tensor in graph.bound]
        imported.constants[:0] = imported.adapter.bind(imported.num_arguments, tensors)
        # Values held by the module at compile time are constant by contract.
        names = [name for name, _ in graph.bound]
        static = list(enumerate(names, start=imported.num_arguments))
        self._imported = imported
        runner = self.report.runner = make_runner(RunnerRequest(imported, config, static=static))
        run = imported.adapter.wrap(runner)
        # Otherwise calls through PyTorch would record gradients of their arguments.
        return torch.no_grad()(run) if imported.outcome.calls else run

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        cpu: Sequence[str] = ("v3", "v4"),
        name: str | None = None,
        input_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
    ) -> None:
        """Writes a model file for gex.load, gex serve and the C and C++ interface.

        `cpu` names the x86-64 levels to generate machine code for. Programs with steps that run
        through PyTorch are rejected; the message lists all such steps.
        """
        from gex.deploy.saving import save_imported

        names = [i.name for i in self._inputs if not isinstance(i, Fixed)]
        save_imported(
            self._imported,
            os.fspath(path),
            list(input_names) if input_names is not None else names,
            list(output_names) if output_names is not None else _output_names(self._out_spec),
            tuple(cpu),
            name,
        )

    def __copy__(self) -> Compiled:
        """Another object for the same program and state."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Compiled:
        source = copy.deepcopy(self._source, memo)
        return _compiled_again(source, copy.deepcopy(self._bound, memo))

    def __reduce__(self) -> tuple[Any, ...]:
        return _compiled_again, (self._source, self._bound)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._is_flat or kwargs:
            return self._call_any(args, kwargs)
        for argument in args:
            if type(argument) is not torch.Tensor:
                return self._call_any(args, kwargs)
        try:
            return self._finish(self._run([*args]))
        except UserError as problem:
            return self._call_any(args, kwargs, problem)

    def _call_any(self, args: Any, kwargs: dict[str, Any], problem: UserError | None = None) -> Any:
        """A call with structured arguments, constants or arrays, or one that the graph rejected."""
        leaves = self._leaves(args, kwargs)
        with_arrays = any(_is_array(leaf) for leaf in leaves)
        passed, written_back, changed = [], [], False
        for leaf, expected in zip(leaves, self._inputs):
            if isinstance(expected, Fixed):
                _check_fixed(expected, leaf)
                continue
            tensor = _as_tensor(expected.name, leaf, expected.example)
            laid_out = _laid_out(tensor, expected.example)
            changed = changed or laid_out is not tensor
            if laid_out is not tensor and expected.mutated:
                written_back.append((tensor, laid_out))
            passed.append(laid_out)
        if problem is not None and not changed:
            raise problem
        results = self._run(passed)
        for tensor, written in written_back:
            tensor.copy_(written)
        return self._finish([_as_array(r) for r in results] if with_arrays else results)

    def _leaves(self, args: Any, kwargs: dict[str, Any]) -> list[Any]:
        leaves, spec = tree_flatten((args, kwargs))
        if spec == self._in_spec:
            return leaves
        leaves, spec = tree_flatten(self._arranged(args, kwargs))
        if spec != self._in_spec:
            names = ", ".join(i.name for i in self._inputs)
            raise UserError(
                f"the inputs ({names}) have a different structure than the examples: expected "
                f"{self._in_spec}, got {spec}"
            )
        return leaves

    def _arranged(self, args: Any, kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict]:
        """The arguments by position and by name as in the examples."""
        positions, by_name = self._in_spec.child(0), self._in_spec.child(1)
        names = list(by_name.context)
        if self._signature is not None:
            given = self._signature.bind(*args, **kwargs)
            variadic = {p.name for p in self._signature.parameters.values() if p.kind in (2, 4)}
            if not variadic & set(given.arguments):
                everything = dict(given.arguments)
                order = list(everything)[: positions.num_children]
                args = tuple(everything.pop(name) for name in order)
                kwargs = everything
        missing = [name for name in names if name not in kwargs]
        unknown = [name for name in kwargs if name not in names]
        if len(args) != positions.num_children or missing or unknown:
            raise UserError(
                f"expected {positions.num_children} arguments by position and by name {names}; "
                f"got {len(args)} by position and {list(kwargs)} by name"
            )
        return tuple(args), {name: kwargs[name] for name in names}


def _output_names(spec: TreeSpec) -> list[str]:
    """Keys of a dict of tensors, else numbers."""
    if not spec.is_leaf() and spec.type is dict and all(c.is_leaf() for c in spec.children()):
        return [str(key) for key in spec.context]
    return [f"output_{k}" for k in range(spec.num_leaves)]


def _compiled_again(source: Source, bound: list[tuple[str, torch.Tensor]]) -> Compiled:
    """A copy of a compiled object that was bound to these tensors, with its own tensors."""
    source.bind(bound)
    compiled = source.compile_again(compile)
    for name, tensor in bound:
        if name in compiled.state and compiled.state[name] is not tensor:
            compiled.state[name].copy_(tensor)
    return compiled


def _flat_spec(count: int) -> TreeSpec:
    return tree_flatten((tuple(range(count)), {}))[1]


def _finisher(spec: TreeSpec) -> Callable[[Sequence[Any]], Any]:
    """Builds the module's return value from the list of its tensors."""
    if spec.is_leaf():
        return lambda results: results[0]
    children = spec.children()
    if all(child.is_leaf() for child in children):
        if spec.type in (tuple, list):
            return spec.type
        if spec.type is dict:
            return lambda results: dict(zip(spec.context, results))
    return lambda results: tree_unflatten(list(results), spec)


def _check_fixed(expected: Fixed, leaf: Any) -> None:
    same = leaf is expected.value or (type(leaf) is type(expected.value) and leaf == expected.value)
    if not same:
        raise UserError(
            f"input {expected.name!r} was exported with the value {expected.value!r} and is fixed; "
            f"got {leaf!r}. Compile once more for this value"
        )


def _is_array(leaf: Any) -> bool:
    numpy = sys.modules.get("numpy")  # arrays exist only if it was imported
    return numpy is not None and isinstance(leaf, numpy.ndarray)


def _as_tensor(name: str, leaf: Any, example: Any) -> Any:
    if _is_array(leaf):
        return torch.from_numpy(leaf if leaf.flags.writeable else leaf.copy())
    wanted = "a tensor or an array" if isinstance(example, torch.Tensor) else "an int"
    kind = torch.Tensor if isinstance(example, torch.Tensor) else int
    if not isinstance(leaf, kind):
        raise UserError(f"input {name!r} must be {wanted}, got {leaf!r} of {type(leaf)}")
    return leaf


def _laid_out(tensor: Any, example: Any) -> Any:
    """The tensor with the example's axis order in memory; itself if it already has it."""
    if not isinstance(tensor, torch.Tensor) or tensor.dim() != example.dim():
        return tensor
    order = sorted(range(example.dim()), key=lambda axis: _stride(example, axis), reverse=True)
    strides, step = [0] * tensor.dim(), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= max(1, tensor.shape[axis])
    lies_so = all(
        tensor.stride(axis) == strides[axis] or tensor.shape[axis] <= 1
        for axis in range(tensor.dim())
    )
    if lies_so or step == 0:
        return tensor
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype).copy_(tensor)


def _stride(example: torch.Tensor, axis: int) -> int:
    stride = example.stride(axis)
    return stride if isinstance(stride, int) else stride.node.hint


def _as_array(result: Any) -> Any:
    if not isinstance(result, torch.Tensor):
        return result
    if result.dtype == torch.bfloat16:
        raise UserError(
            "a result is bfloat16, which NumPy does not support: pass tensors to get tensors"
        )
    return result.detach().numpy()
