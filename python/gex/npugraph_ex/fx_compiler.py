"""compile_fx: compiles an ATen graph, as AOTAutograd passes it to a compiler, to a callable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from gex.compat.fake_tensors import FakeTensorMode
from gex.compat.graph_modules import pickled_graph, unpickled_graph
from gex.compat.torch_version import warn_if_untested
from gex.debug.debug_folder import ModelFolder
from gex.fx_stage import add_observer
from gex.fx_stage.observation import ALL_PASSES, Subject
from gex.options.table import CompilerConfig, Config

ARTIFACTS_VERSION = "0.1"
# These passes were already applied to the graph of a record.
_APPLIED = ("post_grad_custom_pre_pass", "post_grad_custom_post_pass")


@dataclass(frozen=True)
class Artifacts:
    """A picklable form from which a compiled graph can be restored in another process."""

    version: str
    code: str  # readable: the graph after all passes, and the options
    graph: bytes
    options: dict[str, Any]


class CompiledFx:
    """Takes the graph's inputs one by one, or as one list that is emptied; returns a list."""

    _boxed_call = True  # AOTAutograd passes the list

    def __init__(self, run: Callable[[list[Any]], Sequence[Any]], artifacts: Artifacts) -> None:
        self._run = run
        self._artifacts = artifacts

    def __call__(self, *inputs: Any) -> list[Any]:
        boxed = len(inputs) == 1 and isinstance(inputs[0], list)
        return list(self._run(inputs[0] if boxed else list(inputs)))

    def dump_artifacts(self) -> Artifacts:
        return self._artifacts

    @classmethod
    def load_artifacts(cls, record: Artifacts) -> CompiledFx:
        """Compiles the result of dump_artifacts(), without tracing."""
        if record.version != ARTIFACTS_VERSION:
            raise RuntimeError(
                f"artifacts of version {record.version!r} can't be loaded: this is version "
                f"{ARTIFACTS_VERSION!r}; compile and dump it again"
            )
        mode = FakeTensorMode(shape_env=ShapeEnv())
        gm = unpickled_graph(record.graph, mode)
        return _compile(gm, None, CompilerConfig(record.options))


def compile_fx(
    gm: GraphModule,
    example_inputs: Sequence[Any] | None = None,
    options: Mapping[str, Any] | None = None,
) -> CompiledFx:
    """Compiles an ATen graph. Takes the options of backend "npugraph_ex"."""
    return _compile(gm, example_inputs, CompilerConfig(options))


def get_compiler(
    compiler_config: Config | None = None,
) -> Callable[[GraphModule, Sequence[Any] | None], CompiledFx]:
    """compile_fx with the options of a configuration, as a compiler for AOTAutograd."""
    given = changed_options(compiler_config)

    def compiler(gm: GraphModule, example_inputs: Sequence[Any] | None = None) -> CompiledFx:
        return compile_fx(gm, example_inputs, given)

    return compiler


def changed_options(config: Config | None) -> dict[str, Any]:
    if config is not None and not isinstance(config, CompilerConfig):
        raise TypeError(f"compiler_config must be a CompilerConfig or None, got {type(config)}")
    return {} if config is None else config.changed()


def _compile(gm: GraphModule, example_inputs: Sequence[Any] | None, config: Config) -> CompiledFx:
    from gex.pipeline.compiler import graph_compiler
    from gex.pipeline.job import CompileRequest, FromDynamo

    if not isinstance(gm, GraphModule):
        raise TypeError(f"compile_fx takes a torch.fx.GraphModule, got {type(gm)}")
    warn_if_untested()
    placeholders = gm.graph.find_nodes(op="placeholder")
    _give_values(gm, placeholders, example_inputs)
    if example_inputs is None:
        example_inputs = [node.meta["val"] for node in placeholders]
    names = tuple(node.name for node in placeholders)
    taken: list[Artifacts] = []

    def take(subject: Subject, stage: str, seen: GraphModule) -> None:
        if seen is gm and stage == ALL_PASSES:
            taken.append(_artifacts_of(gm, config))

    take_off = add_observer(take)
    try:
        given = FromDynamo(names=names)
        request = CompileRequest("npugraph_ex", config, given, ModelFolder.of_compile_fx())
        run = graph_compiler(request)(gm, example_inputs)
    finally:
        take_off()
    artifacts = taken[0] if taken else _artifacts_of(gm, config)
    return CompiledFx(_boxed(run), artifacts)


def _boxed(run: Any) -> Callable[[list[Any]], Sequence[Any]]:
    if getattr(run, "_boxed_call", False):
        return run
    return lambda inputs: run(*inputs)


def _give_values(
    gm: GraphModule, placeholders: Sequence[torch.fx.Node], example_inputs: Sequence[Any] | None
) -> None:
    """Computes fake values from the examples for graphs that were not traced with fake tensors."""
    if example_inputs is not None and len(example_inputs) != len(placeholders):
        raise ValueError(
            f"the graph has {len(placeholders)} inputs, got {len(example_inputs)} examples"
        )
    if all("val" in node.meta for node in placeholders):
        return
    if example_inputs is None:
        raise ValueError(
            "example_inputs is missing: the nodes of this graph have no values (meta['val'])"
        )
    FakeTensorProp(gm, FakeTensorMode(allow_non_fake_inputs=True)).propagate(*example_inputs)


def _artifacts_of(gm: GraphModule, config: Config) -> Artifacts:
    options = {name: v for name, v in config.changed().items() if name not in _APPLIED}
    shown = {name: config.get(name) for name in ("capture_error_mode", *config.changed())}
    code = "\n".join([*(f"# {name} = {value!r}" for name, value in shown.items()), gm.code])
    graph = pickled_graph(gm)
    return Artifacts(ARTIFACTS_VERSION, code, graph, options)
