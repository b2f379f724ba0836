"""Modes of PyTorch around and inside a compiled function."""

from __future__ import annotations

import copy
import pickle
import threading
import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import gex
from conftest import Compile, assert_same


def mlp() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.LayerNorm(12), nn.Linear(12, 3))


def test_inference_mode(compiling: Compile) -> None:
    model = mlp()
    compiled = compiling(model)
    x = torch.randn(4, 6)
    with torch.inference_mode():
        made_inside = torch.randn(4, 6)
        for argument in (x, made_inside):
            got = compiled(argument)
            assert_same(got, model(argument))
        assert got.is_inference()
    assert_same(compiled(x), model(x))  # with gradients again
    assert compiled(x).requires_grad


def test_writing_in_inference_mode(compiling: Compile) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x.mul_(2)[1:]

    with torch.inference_mode():
        x, y = torch.ones(3), torch.ones(3)
        assert_same(compiling(fn)(x), fn(y))
        assert_same(x, y)


def test_no_grad_and_gradients_alternate(compiling: Compile) -> None:
    model = mlp()
    compiled = compiling(model)
    x = torch.randn(4, 6)
    for _ in range(2):
        with torch.no_grad():
            assert not compiled(x).requires_grad
        got = compiled(x)
        got.sum().backward()
        assert model[0].weight.grad is not None
        assert_same(got, model(x))


def test_argument_that_needs_no_gradient_among_some_that_do(compiling: Compile) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return (x * y).sum(), (y * 2).detach()

    x = torch.randn(3, requires_grad=True)
    loss, rest = compiling(fn)(x, torch.ones(3))
    assert loss.requires_grad
    assert not rest.requires_grad
    loss.backward()
    assert_same(x.grad, torch.ones(3))


@pytest.mark.parametrize("around", [True, False])
def test_autocast(compiling: Compile, around: bool) -> None:
    model = mlp()
    x = torch.randn(4, 6)

    def inside(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return model(x)

    compiled = compiling(model if around else inside)
    with torch.autocast("cpu", torch.bfloat16, enabled=around), torch.no_grad():
        got, want = compiled(x), (model if around else inside)(x)
    assert got.dtype == want.dtype == torch.bfloat16
    assert_same(got, want, tolerance=2e-2)
    if around:
        with torch.no_grad():
            assert compiled(x).dtype == torch.float32


def test_default_dtype_and_number_of_threads(compiling: Compile) -> None:
    compiled = compiling(lambda x: x + torch.ones(3))
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    try:
        for wanted in (torch.float32, torch.float64):
            torch.set_default_dtype(wanted)
            torch.set_num_threads(1)
            assert compiled(torch.ones(3)).dtype == wanted
    finally:
        torch.set_default_dtype(dtype)
        torch.set_num_threads(threads)


def test_other_versions_of_pytorch_warn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.99.1+cpu")
    with pytest.warns(UserWarning, match=r"tested with PyTorch 2\.11 and 2\.13; this is 2\.99\.1"):
        torch.compile(lambda x: x + 1, backend="gex")(torch.ones(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        torch.compile(lambda x: x + 2, backend="gex")(torch.ones(2))


# --- several graphs -----------------------------------------------------------------------------


def test_several_graphs_after_graph_breaks() -> None:
    def fn(x: torch.Tensor, log: list[float]) -> torch.Tensor:
        y = x.sin() + 1
        torch._dynamo.graph_break()
        z = y * 2
        log.append(float(z.sum()))  # reads the value: another break
        return z.view(-1) - x.sum()

    compiled = torch.compile(fn, backend="gex")
    x = torch.randn(3, 4)
    first: list[float] = []
    second: list[float] = []
    with gex.collect() as graphs:
        assert_same(compiled(x, first), fn(x, second))
    assert len(graphs) >= 2
    assert first == pytest.approx(second)


def test_fullgraph_refuses_a_graph_break() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return x + 1

    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(fn, backend="gex", fullgraph=True)(torch.randn(3))


def test_branch_on_data_gives_graphs_on_both_sides() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        return y.sin() if y.sum() > 0 else y.cos()

    compiled = torch.compile(fn, backend="gex")
    for x in (torch.ones(3), -torch.ones(3), torch.ones(3)):
        assert_same(compiled(x), fn(x))


# --- copies, threads, processes -----------------------------------------------------------------


def test_deepcopy_of_a_compiled_module() -> None:
    model = mlp()
    compiled = torch.compile(model, backend="gex")
    x = torch.randn(4, 6)
    with torch.no_grad():
        before = compiled(x)
        other = copy.deepcopy(compiled)
        other._orig_mod[0].weight.zero_()
        assert_same(compiled(x), before)
        assert_same(other(x), other._orig_mod(x))
        assert not torch.allclose(other(x), before)


def test_pickle_of_a_compiled_module() -> None:
    compiled = torch.compile(mlp(), backend="gex")
    x = torch.randn(4, 6)
    with torch.no_grad():
        before = compiled(x)
        other = pickle.loads(pickle.dumps(compiled))
        assert_same(other(x), before)


def test_state_of_a_compiled_module_is_that_of_the_module() -> None:
    compiled, other = torch.compile(mlp(), backend="gex"), mlp()
    x = torch.randn(4, 6)
    with torch.no_grad():
        compiled(x)
        for p in other.parameters():
            p.add_(1)
        compiled.load_state_dict({f"_orig_mod.{k}": v for k, v in other.state_dict().items()})
        assert_same(compiled(x), other(x))


def test_threads_with_different_shapes() -> None:
    model = mlp()
    compiled = torch.compile(model, backend="gex", dynamic=True)
    wrong: list[Any] = []
    with torch.no_grad():
        compiled(torch.randn(5, 6))

    def work(rows: int) -> None:
        with torch.no_grad():
            for _ in range(20):
                x = torch.randn(rows, 6)
                if not torch.allclose(compiled(x), model(x), atol=1e-5):
                    wrong.append(rows)

    threads = [threading.Thread(target=work, args=(rows,)) for rows in (2, 3, 7, 31)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


class Compiled(Dataset):
    """Rows that go through a compiled function on their way."""

    def __init__(self) -> None:
        self.fn = torch.compile(lambda x: x.sin() * 2 + 1, backend="gex")
        self.fn(torch.zeros(4))  # compiled before the workers are forked

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.fn(torch.full((4,), float(index)))


@pytest.mark.skipif(
    torch.cuda.is_available(), reason="Dynamo saves CUDA's random state, which no fork may read"
)
def test_forked_data_loader_workers() -> None:
    loader = DataLoader(Compiled(), batch_size=4, num_workers=2, multiprocessing_context="fork")
    got = torch.cat(list(loader))
    assert_same(got, torch.arange(12.0).sin()[:, None].expand(12, 4).contiguous() * 2 + 1)
