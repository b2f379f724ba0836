"""The model zoo: every model in every way it runs, against eager."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("transformers")

from zoo import harness
from zoo.families import FAMILIES, MODELS

RUNS = [
    pytest.param(name, way, id=f"{name}-{way}")
    for name, model in MODELS.items()
    for way in harness.ways(model)
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "way"), RUNS)
def test_model(name: str, way: str) -> None:
    model = MODELS[name]
    finding = harness.ways(model)[way](model)
    assert finding.native_share > 0.9, finding.reasons
    if way == "generate":
        assert finding.tokens >= 4


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if model.breaks])
def test_model_with_breaks_is_no_single_graph_for_dynamo_either(name: str) -> None:
    model = MODELS[name]
    module, inputs = model.build(), model.inputs(2)
    with pytest.raises(torch._dynamo.exc.TorchDynamoException), torch.no_grad():
        torch.compile(module, backend="aot_eager", fullgraph=True)(**inputs)


def test_the_zoo_covers_what_it_should() -> None:
    assert len(MODELS) == sum(len(family) for family in FAMILIES.values()) >= 60
    assert sum(model.backward for model in MODELS.values()) >= len(MODELS) // 5
    assert all(MODELS[name].inputs(2) for name in MODELS)
