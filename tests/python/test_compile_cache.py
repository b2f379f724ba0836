"""Compiled programs cached between processes: with frozen parameters, and with user passes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

import gex
from gex import passes
from gex.npugraph_ex.inference import cache_compile


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GEX_CACHE_DIR", str(tmp_path / "programs"))
    return tmp_path


class Model(nn.Module):
    """A folded scale, packed weights, an embedding that is read in place."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embedding = nn.Embedding(50, 32)
        self.scale = nn.Parameter(torch.randn(32))
        self.layer = nn.Linear(32, 40)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.layer(self.embedding(ids) * (self.scale.exp() + 1))


IDS = torch.arange(40)
FROZEN = {"frozen_parameter": True}


def from_cache(model: nn.Module, options: dict[str, object] | None = None) -> bool:
    """Compiles and compares; whether the program was there already."""
    torch._dynamo.reset()
    with gex.collect() as graphs, torch.no_grad():
        compiled = torch.compile(model, backend="npugraph_ex", options=options)
        torch.testing.assert_close(compiled(IDS), model(IDS))
    return graphs[0].runner.counters.get("programs_from_cache", 0) == 1


def test_programs_with_frozen_parameters_are_cached_whatever_their_contents() -> None:
    assert not from_cache(Model(0), FROZEN)
    assert from_cache(Model(0), FROZEN)
    assert from_cache(Model(1), FROZEN)
    assert not from_cache(Model(0))
    assert from_cache(Model(1))


def test_refreshed_parameters_are_bound_to_the_kept_program() -> None:
    model = Model(0)
    compiled = torch.compile(model, backend="npugraph_ex", options=FROZEN)
    with gex.collect() as graphs, torch.no_grad():
        torch.testing.assert_close(compiled(IDS), model(IDS))
        model.scale.mul_(2)
        model.layer.weight.data.mul_(3)
        gex.refresh(model)
        torch.testing.assert_close(compiled(IDS), model(IDS))
    assert graphs[0].runner.counters.get("programs_from_cache", 0) == 1


def test_a_cached_function_binds_the_parameters_of_the_new_module(folder: Path) -> None:
    found = []
    for seed in (0, 1):
        model = Model(seed)
        kept = cache_compile(model.forward, cache_dir=str(folder), options=FROZEN)
        with gex.collect() as graphs:
            torch.testing.assert_close(kept(IDS), model(IDS))
        found.append(graphs[0].runner.counters.get("programs_from_cache", 0))
    assert found == [0, 1]


@pytest.fixture
def no_passes_left() -> Iterator[None]:
    yield
    passes.clear_registered_passes()


def register(version: str, factor: float) -> None:
    passes.clear_registered_passes()

    @passes.register_fusion_pass("twice", version=version)
    class Twice(passes.PatternPass):
        @passes.pattern
        def added_to_itself(self, inputs):  # type: ignore[no-untyped-def]
            return inputs[0] + inputs[0]

        def replacement(self, inputs):  # type: ignore[no-untyped-def]
            return inputs[0] * factor


def test_results_of_a_pass_are_cached_by_its_version(no_passes_left: None) -> None:
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x + x

    def result_and_hit() -> tuple[float, bool]:
        torch._dynamo.reset()
        with gex.collect() as graphs, torch.no_grad():
            result = torch.compile(twice, backend="npugraph_ex")(torch.ones(3))
        return result[0].item(), "programs_from_cache" in graphs[0].runner.counters

    register("1", 2.0)
    assert result_and_hit() == (2.0, False)
    assert result_and_hit() == (2.0, True)
    register("2", 5.0)
    assert result_and_hit() == (5.0, False)
    register("1", 2.0)
    assert result_and_hit() == (2.0, True)
    register("", 7.0)
    assert [result_and_hit() for _ in range(2)] == [(7.0, False)] * 2
