"""Outputs that are kept, inputs that move, padding full of NaN, memory over many calls."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable

import pytest
import torch
from cuda_models import Attention, Block, close, compiled, mlp
from torch import nn


@pytest.mark.parametrize("dynamic", [False, True])
def test_1000_kept_outputs_stay_valid(dynamic: bool) -> None:
    model = mlp()
    run = compiled(model, dynamic=dynamic)
    torch.manual_seed(0)
    rows = [16 + i % 50 if dynamic else 16 for i in range(1000)]
    with torch.no_grad():
        inputs = [torch.randn(n, 64, device="cuda") for n in rows]
        kept = [run(x) for x in inputs]
        for number, (x, got) in enumerate(zip(inputs, kept)):
            assert got.shape == x.shape, number
            close(got, model(x))
    assert len({got.data_ptr() for got in kept}) == 1000


def test_outputs_outlive_the_compiled_function() -> None:
    model = mlp()
    run = compiled(model)
    x = torch.randn(16, 64, device="cuda")
    with torch.no_grad():
        kept = [run(x + i) for i in range(20)]
        del run
        torch._dynamo.reset()
        gc.collect()
        torch.cuda.synchronize()
        for i, got in enumerate(kept):
            close(got, model(x + i))


def test_inputs_and_weights_that_move() -> None:
    model = mlp()
    run = compiled(model)
    with torch.no_grad():
        for i in range(6):
            for parameter in model.parameters():
                if i % 2:
                    parameter.data = parameter.data.clone() * 1.1
            x = torch.randn(16, 64, device="cuda")
            close(run(x), model(x))


def test_outputs_that_alias_inputs_and_each_other() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        return x.view(-1), y, y.t(), y[1:]

    run = compiled(function)
    for _ in range(3):
        x = torch.randn(6, 8, device="cuda")
        flat, y, turned, part = run(x)
        assert flat.data_ptr() == x.data_ptr()
        assert turned.data_ptr() == y.data_ptr() and part.data_ptr() == y[1:].data_ptr()
        for got, want in zip((flat, y, turned, part), function(x)):
            close(got, want)


def _sums(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).cumsum(0) + (x + 1).sum(0) + (x * 3).mean(0)


def _order(x: torch.Tensor) -> torch.Tensor:
    values = (x * 2).sort(dim=0, stable=True).values
    return values + (x - 1).max(0).values


def _scattered(x: torch.Tensor) -> torch.Tensor:
    index = torch.arange(x.shape[0], device=x.device) % 7
    return torch.zeros(7, x.shape[1], device=x.device).index_add(0, index, x * 2)


def _softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x @ x.t(), -1) @ x


_CASES: dict[str, Callable[[], Callable[[torch.Tensor], torch.Tensor]]] = {
    "mlp": mlp,
    "attention": lambda: _batched(Attention()),
    "block": lambda: _batched(Block()),
    "sums": lambda: _sums,
    "order": lambda: _order,
    "scatter": lambda: _scattered,
    "softmax": lambda: _softmax,
}


def _batched(module: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
    module = module.cuda().eval()
    return lambda x: module(x[None])[0]


@pytest.mark.parametrize("name", _CASES)
@torch.no_grad()
def test_nan_in_the_padding_of_a_gear_reaches_no_result(name: str) -> None:
    """A call with the gear's own size and NaN inputs fills the arena with NaN; smaller sizes of the
    same gear then use that memory."""
    torch.manual_seed(0)
    model = _CASES[name]()
    run = compiled(model, dynamic=True)
    run(torch.randn(128, 64, device="cuda"))
    for rows in (127, 97, 65, 66, 128):
        poison = torch.full((128, 64), torch.nan, device="cuda")
        run(poison)
        x = torch.randn(rows, 64, device="cuda")
        close(run(x), model(x), 1e-3)


def _resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


@torch.no_grad()
def test_100000_replays_without_growth(record_property: Callable[[str, object], None]) -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)).cuda().eval()
    run = compiled(model)
    x = torch.randn(16, 64, device="cuda")
    want = model(x)
    for _ in range(2000):
        got = run(x)
    torch.cuda.synchronize()
    gc.collect()
    free, resident = torch.cuda.mem_get_info()[0], _resident_bytes()
    allocated = torch.cuda.memory_allocated()
    for _ in range(100_000):
        got = run(x)
    torch.cuda.synchronize()
    gc.collect()
    close(got, want)
    grown = {
        "device bytes": free - torch.cuda.mem_get_info()[0],
        "PyTorch's bytes": torch.cuda.memory_allocated() - allocated,
        "resident bytes": _resident_bytes() - resident,
    }
    record_property("growth of 100,000 replays", grown)
    assert grown["device bytes"] <= 0 and grown["PyTorch's bytes"] <= 0, grown
    assert grown["resident bytes"] < 4 << 20, grown
