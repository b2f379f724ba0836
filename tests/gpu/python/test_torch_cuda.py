"""torch.compile with CUDA tensors, against eager mode."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gex
from gex import report

if not torch.cuda.is_available():
    pytest.skip("needs a GPU", allow_module_level=True)

BACKENDS = ["gex", "npugraph_ex"]


def close(got: Any, expected: Any, tolerance: float = 2e-5) -> None:
    torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)


def native(function: Callable[..., Any], *args: Any, backend: str = "npugraph_ex", **options: Any):
    """The compiled function; asserts that its last graph ran on the GPU without PyTorch's ops."""
    torch._dynamo.reset()
    compiled = torch.compile(function, backend=backend, **options)
    result = compiled(*args)
    last = report.reports()[-1]
    assert last.eager_reason is None, last.eager_reason
    assert not last.calls, [call.name for call in last.calls]
    assert 'target "cuda:0"' in last.runner.text("program")
    return compiled, result


@pytest.mark.parametrize("backend", BACKENDS)
def test_mlp(backend: str) -> None:
    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 10))
    model = model.cuda().eval()
    x = torch.randn(32, 64, device="cuda")
    with torch.no_grad():
        compiled, got = native(model, x, backend=backend)
        close(got, model(x))
        for _ in range(3):
            x = torch.randn(32, 64, device="cuda")
            close(compiled(x), model(x))


@pytest.mark.parametrize("shape", [(7, 33), (128, 4096), (3, 5, 17), (2, 70000)])
def test_softmax(shape: tuple[int, ...]) -> None:
    x = torch.randn(*shape, device="cuda")
    _, got = native(lambda t: torch.softmax(t * 2, -1) + 1, x)
    close(got, torch.softmax(x * 2, -1) + 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_products(dtype: torch.dtype) -> None:
    a = torch.randn(3, 65, 130, device="cuda", dtype=dtype)
    b = torch.randn(3, 130, 77, device="cuda", dtype=dtype)
    bias = torch.randn(77, device="cuda", dtype=dtype)

    def function(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor) -> Any:
        return a @ b, F.relu(a @ b + bias), (a.float() @ b.float()).sum()

    _, got = native(function, a, b, bias)
    expected = function(a, b, bias)
    tolerance = {torch.float32: 2e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}[dtype]
    for one, other in zip(got, expected):
        close(one, other, tolerance)


@pytest.mark.parametrize(("stride", "groups"), [(1, 1), (2, 1), (1, 4), (2, 8)])
def test_convolution(stride: int, groups: int) -> None:
    conv = nn.Conv2d(8, 16, 3, stride=stride, padding=1, groups=groups).cuda().eval()
    x = torch.randn(2, 8, 19, 23, device="cuda")
    with torch.no_grad():
        _, got = native(lambda t: F.relu(conv(t)), x)
        close(got, F.relu(conv(x)), 2e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("causal", [False, True])
def test_attention(dtype: torch.dtype, causal: bool) -> None:
    q, k, v = (torch.randn(2, 4, 50, 64, device="cuda", dtype=dtype) for _ in range(3))

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    _, got = native(function, q, k, v)
    close(got, function(q, k, v), 2e-4 if dtype == torch.float32 else 3e-2)


def test_transformer_layer() -> None:
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).cuda().eval()
    x = torch.randn(2, 31, 64, device="cuda")
    with torch.no_grad():
        torch._dynamo.reset()
        got = torch.compile(layer, backend="npugraph_ex")(x)
        close(got, layer(x), 1e-3)


def test_sort_and_topk() -> None:
    x = torch.randn(9, 1000, device="cuda")
    _, got = native(lambda t: (*torch.sort(t, dim=-1, stable=True), *torch.topk(t, 7)), x)
    expected = (*torch.sort(x, dim=-1, stable=True), *torch.topk(x, 7))
    for one, other in zip(got, expected):
        close(one, other)


def test_scan_and_reductions() -> None:
    x = torch.rand(12, 3000, device="cuda")

    def function(t: torch.Tensor) -> Any:
        return t.cumsum(1), t.sum(), t.mean(0), t.max(1).values, t.argmax(1), t.var(1)

    _, got = native(function, x)
    for one, other in zip(got, function(x)):
        close(one, other, 2e-4)


def test_index_and_scatter() -> None:
    table = torch.randn(100, 16, device="cuda")
    index = torch.randint(0, 100, (40,), device="cuda")
    values = torch.randn(40, 16, device="cuda")

    def function(table: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> Any:
        return table[index] * 2, table.index_add(0, index, values)

    _, got = native(function, table, index, values)
    for one, other in zip(got, function(table, index, values)):
        close(one, other, 1e-4)


def test_growing_sizes_share_captures() -> None:
    layer = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.LayerNorm(64)).cuda().eval()
    with torch.no_grad():
        first = torch.randn(24, 64, device="cuda")
        torch._dynamo.reset()
        compiled = torch.compile(layer, backend="npugraph_ex", dynamic=True)
        close(compiled(first), layer(first))
        for rows in range(25, 152):
            x = torch.randn(rows, 64, device="cuda")
            close(compiled(x), layer(x))
    runner = report.reports()[-1].runner
    assert len(runner.captures) <= 6, runner.captures


def test_kept_outputs_stay_valid() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda t: t * 3 + 1, backend="npugraph_ex")
    inputs = [torch.full((1000,), float(i), device="cuda") for i in range(200)]
    kept = [compiled(x) for x in inputs]
    for i, result in enumerate(kept):
        assert torch.equal(result, inputs[i] * 3 + 1), i


def test_runs_on_the_current_stream() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda t: (t @ t).relu(), backend="npugraph_ex")
    x = torch.randn(512, 512, device="cuda") / 20
    compiled(x)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        y = x
        for _ in range(50):
            y = compiled(y)
    torch.cuda.current_stream().wait_stream(stream)
    expected = x
    for _ in range(50):
        expected = (expected @ expected).relu()
    close(y, expected, 1e-3)


def test_training_step() -> None:
    def make() -> nn.Module:
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 8)).cuda()

    losses = []
    for compiles in (False, True):
        torch._dynamo.reset()
        model = make()
        run = torch.compile(model, backend="npugraph_ex") if compiles else model
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        torch.manual_seed(4)
        losses.append([])
        for _ in range(5):
            x = torch.randn(16, 32, device="cuda")
            loss = F.mse_loss(run(x), x[:, :8])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    close(torch.tensor(losses[1]), torch.tensor(losses[0]), 1e-4)


def test_mutated_inputs() -> None:
    def function(cache: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        cache[:, 2:4] = new
        return cache.sum(1)

    cache = torch.zeros(3, 8, device="cuda")
    expected = cache.clone()
    new = torch.randn(3, 2, device="cuda")
    _, got = native(function, cache, new)
    close(got, function(expected, new))
    close(cache, expected)


def test_numbers_on_the_cpu() -> None:
    scale = torch.tensor(2.5)
    x = torch.randn(10, device="cuda")
    _, got = native(lambda t, s: t * s, x, scale)
    close(got, x * scale)


def test_calls_through_pytorch() -> None:
    torch._dynamo.reset()
    x = torch.randn(6, 6, device="cuda")
    compiled = torch.compile(
        lambda t: torch.linalg.inv(t + 9 * torch.eye(6, device="cuda")) * 2, backend="npugraph_ex"
    )
    close(compiled(x), torch.linalg.inv(x + 9 * torch.eye(6, device="cuda")) * 2, 1e-4)


def test_gex_compile() -> None:
    model = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 4)).cuda().eval()
    x = torch.randn(5, 16, device="cuda")
    with torch.no_grad():
        compiled = gex.compile(model, (x,))
        close(compiled(x), model(x), 1e-4)


def test_memory_does_not_grow() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda t: torch.softmax(t, -1) @ t.T, backend="npugraph_ex")
    x = torch.randn(300, 300, device="cuda")
    for _ in range(10):
        compiled(x)
    torch.cuda.synchronize()
    gc.collect()
    before = torch.cuda.mem_get_info()[0]
    for _ in range(2000):
        compiled(x)
    torch.cuda.synchronize()
    assert before - torch.cuda.mem_get_info()[0] < 64 << 20
