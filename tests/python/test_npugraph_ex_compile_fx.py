"""compile_fx: compiles an ATen graph by itself, and its artifacts."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._functorch.aot_autograd import aot_module_simplified
from torch.fx.experimental.proxy_tensor import make_fx

import gex
from gex import npugraph_ex
from gex.npugraph_ex import CompiledFx, CompilerConfig, compile_fx, register_replacement


class Compiler:
    """A backend as users of compile_fx write it; keeps what was compiled."""

    def __init__(self, compiler: Callable[..., CompiledFx]) -> None:
        self.compiled: list[CompiledFx] = []
        self._compiler = compiler

    def __call__(self, gm: Any, inputs: Any) -> Any:
        def inner(aten: Any, aten_inputs: Any) -> CompiledFx:
            self.compiled.append(self._compiler(aten, aten_inputs))
            return self.compiled[-1]

        return aot_module_simplified(gm, inputs, fw_compiler=inner)


@pytest.mark.parametrize("options", [None, {}, {"clone_input": False}])
def test_case_28_ones_make_two_and_the_config_shows_the_given_options(
    options: dict[str, Any] | None,
    device: str,
) -> None:
    seen: list[dict[str, Any]] = []

    def look(gm: Any, example_inputs: Any, config: Any) -> None:
        changed = config.changed()
        assert changed.pop("post_grad_custom_pre_pass") is look
        seen.append(changed)

    given = {**(options or {}), "post_grad_custom_pre_pass": look}
    for pass_it in (options, given):
        torch._dynamo.reset()
        backend = Compiler(lambda gm, inputs, o=pass_it: compile_fx(gm, inputs, o))
        fn = torch.compile(lambda a, b: a + b, backend=backend, fullgraph=True, dynamic=False)
        assert torch.equal(
            fn(torch.ones(2, 2, device=device), torch.ones(2, 2, device=device)),
            torch.full((2, 2), 2.0, device=device),
        )
    assert seen == [options or {}]


def test_it_takes_flat_inputs_and_gives_a_list(device: str) -> None:
    x = torch.randn(3, device=device)
    compiled = compile_fx(make_fx(lambda x: [x + 1, x * 2])(x), [x])
    result = compiled(x)
    assert isinstance(result, list)
    torch.testing.assert_close(result, [x + 1, x * 2])


def test_patterns_are_replaced_in_a_graph_traced_with_real_tensors(device: str) -> None:
    """Each value of such a graph has a fake mode of its own."""
    examples = [torch.empty(2, device=device), torch.empty(2, device=device)]
    register_replacement(lambda a, b: torch.relu(a + b), lambda a, b: a - b, examples)
    x = torch.randn(3, device=device)
    gm = make_fx(lambda a, b: [torch.relu(a + b) * 2])(x, x)
    (got,) = compile_fx(gm, [x, x])(x, x)
    assert torch.equal(got, torch.zeros(3, device=device))


def test_examples_may_be_left_out_where_the_graph_has_values(device: str) -> None:
    x = torch.randn(3, device=device)
    torch.testing.assert_close(compile_fx(make_fx(lambda x: [x + 1])(x))(x), [x + 1])


def test_a_graph_without_values_gets_them_from_the_examples(device: str) -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(torch.ops.aten.add.Tensor, (x, 1)),))
    gm = torch.fx.GraphModule({}, graph)
    with pytest.raises(ValueError, match="example_inputs is missing"):
        compile_fx(gm)
    with pytest.raises(ValueError, match="1 inputs, got 2"):
        compile_fx(gm, [torch.ones(2, device=device), torch.ones(2, device=device)])
    value = torch.randn(4, device=device)
    torch.testing.assert_close(compile_fx(gm, [value])(value), [value + 1])


def test_arguments_that_are_not_graphs_are_rejected() -> None:
    with pytest.raises(TypeError, match="GraphModule"):
        compile_fx(lambda x: x)  # type: ignore[arg-type]


def test_training_through_it_gives_eager_gradients(device: str) -> None:
    backend = Compiler(compile_fx)
    x = torch.randn(4, 3, requires_grad=True, device=device)
    y = x.detach().clone().requires_grad_()
    torch.compile(lambda x: (x.tanh() * x).sum(), backend=backend)(x).backward()
    (y.tanh() * y).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)
    assert len(backend.compiled) == 2


def test_a_compiler_has_the_options_of_its_configuration(device: str) -> None:
    config = CompilerConfig()
    config.force_eager = True
    backend = Compiler(npugraph_ex.get_compiler(config))
    config.force_eager = False  # comes too late
    with gex.collect() as graphs:
        fn = torch.compile(lambda a: a + 1, backend=backend, fullgraph=True)
        assert torch.equal(fn(torch.ones(2, device=device)), torch.full((2,), 2.0, device=device))
    assert "force_eager" in graphs[0].text()


# --- artifacts --------------------------------------------------------------------------------


def dumped(fn: Callable[..., Any], *args: Any, dynamic: bool = False, **options: Any) -> Any:
    torch._dynamo.reset()
    backend = Compiler(lambda gm, inputs: compile_fx(gm, inputs, options))
    torch.compile(fn, backend=backend, fullgraph=True, dynamic=dynamic)(*args)
    return pickle.loads(pickle.dumps(backend.compiled[0].dump_artifacts()))


def test_artifacts_make_the_same_graph_again(device: str) -> None:
    a, b = torch.randn(3, 4, device=device), torch.randn(4, 2, device=device)
    record = dumped(lambda a, b: torch.softmax(a @ b, -1), a, b, clone_input=False)
    assert record.version == "0.1"
    assert "aten.mm.default" in record.code and "clone_input = False" in record.code
    loaded = CompiledFx.load_artifacts(record)
    torch.testing.assert_close(loaded(a, b), [torch.softmax(a @ b, -1)])


def test_artifacts_contain_the_changes_of_passes(device: str) -> None:
    def to_sub(gm: Any, example_inputs: Any, config: Any) -> None:
        for node in gm.graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor):
            node.target = torch.ops.aten.sub.Tensor

    a, b = torch.randn(3, device=device), torch.randn(3, device=device)
    record = dumped(lambda a, b: a + b, a, b, post_grad_custom_pre_pass=to_sub)
    torch.testing.assert_close(CompiledFx.load_artifacts(record)(a, b), [a - b])


def test_artifacts_keep_sizes_that_vary(device: str) -> None:
    record = dumped(lambda a: (a * 2).sum(0), torch.randn(3, 4, device=device), dynamic=True)
    loaded = CompiledFx.load_artifacts(record)
    for rows in (3, 7):
        a = torch.randn(rows, 4, device=device)
        torch.testing.assert_close(loaded(rows, 4, a), [(a * 2).sum(0)])


def test_artifacts_of_another_version_name_both_versions(device: str) -> None:
    a = torch.randn(3, device=device)
    record = dataclasses.replace(dumped(lambda a: a + 1, a), version="9.9")
    with pytest.raises(RuntimeError, match=r"'9\.9'.*'0\.1'"):
        CompiledFx.load_artifacts(record)
