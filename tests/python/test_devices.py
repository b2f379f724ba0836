"""Tensors on another device than the one that a graph is compiled for: refused, never followed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import fake_gpu
import gex


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., None]:
    return fake_gpu.code_runner(tmp_path_factory.mktemp("driver"))


def test_a_graph_for_the_cpu_takes_only_tensors_on_the_cpu() -> None:
    compiled = gex.compile(lambda x, y: x * 2 + y, (torch.ones(3), torch.ones(3)))
    x = torch.ones(3)
    with pytest.raises(
        gex.UserError, match="argument 1 is on meta, the graph is compiled for the CPU"
    ):
        compiled(x, torch.ones(3, device="meta"))
    assert torch.equal(compiled(x, x), 3 * x)


def test_frozen_parameters_that_moved_to_another_device_are_refused() -> None:
    model = torch.nn.Linear(4, 4).eval()
    graphs = []

    def backend(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        graphs.append(
            torch._dynamo.lookup_backend("npugraph_ex")(
                gm, inputs, options={"frozen_parameter": True}
            )
        )
        return graphs[-1]

    with torch.no_grad():
        compiled = torch.compile(model, backend=backend)
        x = torch.ones(2, 4)
        torch.testing.assert_close(compiled(x), model(x))
        with (
            pytest.warns(UserWarning, match="was replaced by another tensor"),
            pytest.raises(gex.UserError, match=r"weight.* is on meta, the graph is compiled for"),
        ):
            graphs[0](model.weight.to("meta"), model.bias, x)
        torch.testing.assert_close(compiled(x), model(x))


def test_a_graph_for_a_gpu_takes_no_tensors_on_the_cpu(run: Callable[..., None]) -> None:
    run("""
from gex.pipeline import runner
options_on_host = runner._engine_options

def options(request):
    found = options_on_host(request)
    found.tensors_on_host = False
    return found

runner._engine_options = options
model = torch.nn.Linear(4, 4).eval()
with torch.no_grad():
    with raises(gex.UserError, match="argument . is on cpu, the graph is compiled for cuda:0"):
        compiled(model)(torch.ones(2, 4))
    with raises(gex.UserError, match="weight.* is on cpu, the graph is compiled for cuda:0"):
        compiled(model, options={"frozen_parameter": True})(torch.ones(2, 4))
""")
