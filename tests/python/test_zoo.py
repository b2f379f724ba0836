"""The model zoo: every model in every mode it supports, against eager."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch._dynamo.exc import TorchDynamoException
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

pytest.importorskip("transformers")

import gex
from zoo import harness, page, records
from zoo.families import FAMILIES, MODELS
from zoo.model import Model

TORCH = tuple(int(part) for part in torch.__version__.split(".")[:2])
# Set by `make test-all`: a run that was interrupted goes on where it stopped.
RESUME = os.environ.get("GEX_ZOO_RESUME") == "1"
RUNS = [
    pytest.param(name, mode, id=f"{name}-{mode}")
    for name, model in MODELS.items()
    for mode in harness.modes(model)
    if mode not in model.cannot
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mode"), RUNS)
def test_model(name: str, mode: str) -> None:
    model = MODELS[name]
    before = records.passed_before(name, model, mode) if RESUME else None
    if before is not None:
        pytest.skip(f"{name} {mode}: passed with this very build at {before.when} ({records.FILE})")
    record = records.run(name, model, mode)
    if not record.passed and TORCH < (2, 13) and _fails_without_gex(model, mode, record.failure):
        pytest.skip(f"PyTorch {torch.__version__} alone: {record.failure}")
    assert record.passed, record.failure


def _fails_without_gex(model: Model, mode: str, failure: str) -> bool:
    """Newer libraries may do more than these; then PyTorch alone fails in the same way."""
    try:
        harness.modes(model)[mode](model, backend="aot_eager")
    except Exception as problem:  # of whatever kind gex met
        return records.failure_text(problem) == failure
    return False


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n, model in MODELS.items() if "static" not in model.cannot])
@torch.no_grad()
def test_programs_run_from_their_text_with_the_same_bits(name: str) -> None:
    module, inputs = MODELS[name].build(), MODELS[name].inputs(2)
    compiled = torch.compile(module, backend="gex", dynamic=False)
    with gex.collect() as graphs:
        got = harness.tensors(compiled(**inputs))
    for graph in graphs:
        graph.runner.reload_from_text()
    assert graphs and got
    for before, after in zip(got, harness.tensors(compiled(**inputs)), strict=True):
        assert torch.equal(before.nan_to_num(), after.nan_to_num())


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if model.breaks])
def test_model_with_breaks_is_no_single_graph_for_dynamo_either(name: str) -> None:
    model = MODELS[name]
    module, inputs = model.build(), model.inputs(2)
    refusals = (TorchDynamoException, GuardOnDataDependentSymNode)
    with pytest.raises(refusals), torch.no_grad():
        torch.compile(module, backend="aot_eager", fullgraph=True)(**inputs)


IMPOSSIBLE = [
    pytest.param(name, mode, id=f"{name}-{mode}")
    for name, model in MODELS.items()
    for mode in model.cannot
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mode"), IMPOSSIBLE)
def test_excluded_models_fail_without_gex_too(name: str, mode: str) -> None:
    model = MODELS[name]
    with pytest.raises((AssertionError, LookupError, RuntimeError, TypeError, ValueError)):
        harness.modes(model)[mode](model, backend="aot_eager")


def test_the_zoo_covers_what_it_should() -> None:
    assert len(MODELS) == sum(len(family) for family in FAMILIES.values()) >= 60
    assert 3 * sum(model.backward for model in MODELS.values()) >= len(MODELS)
    assert all(MODELS[name].inputs(2) for name in MODELS)
    assert all(set(model.cannot) <= set(harness.modes(model)) for model in MODELS.values())


def test_only_runs_that_passed_with_the_same_build_and_model_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = iter([harness.Finding(graphs=1), harness.Difference("off"), harness.Finding()])

    def next_outcome(model: Model) -> harness.Finding:
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(records, "FILE", tmp_path / "records" / "zoo.jsonl")
    monkeypatch.setattr(harness, "modes", lambda model: {"static": next_outcome})
    model = MODELS["llama"]
    assert records.passed_before("llama", model, "static") is None
    assert records.run("llama", model, "static").passed
    assert records.passed_before("llama", model, "static") is not None
    assert records.passed_before("llama", model, "dynamic") is None
    deeper = replace(model, arguments={**model.arguments, "num_hidden_layers": 2})
    assert records.passed_before("llama", deeper, "static") is None
    with monkeypatch.context() as other:
        other.setattr(records, "_engine", lambda: "another build")
        assert records.passed_before("llama", model, "static") is None
    assert "off" in records.run("llama", model, "static").failure
    assert records.passed_before("llama", model, "static") is None
    assert "nothing to compile" in records.run("llama", model, "static").failure


def test_the_page_keeps_results_that_were_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "FILE", tmp_path / "zoo.jsonl")
    monkeypatch.setattr(page, "PAGE", tmp_path / "zoo.md")
    page.PAGE.write_text("before\n<!-- table -->\n<!-- end of table -->\nafter\n")
    monkeypatch.setattr(harness, "forward", lambda model, dynamic: harness.Finding(graphs=1))
    records.run("llama", MODELS["llama"], "static")
    page.write()
    records.FILE.unlink()
    records.run("llama", MODELS["llama"], "dynamic")
    page.write()
    text = page.PAGE.read_text()
    assert text.startswith("before\n") and text.endswith("after\n")
    assert "| llama | decoder | ok | ok | not run | not run | not run |" in text
    assert "| bert | encoder | not run | not run | - | - | not run |" in text
