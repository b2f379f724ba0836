"""torch.compile for CUDA, over a driver library that computes on the host."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import fake_gpu

# Of what only the driver library on the host can show.
without_gpu = pytest.mark.skipif(fake_gpu.has_gpu(), reason="there is a GPU")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., None]:
    return fake_gpu.code_runner(tmp_path_factory.mktemp("driver"))


def test_generated_kernels_and_one_graph_launch(run: Callable[..., None]) -> None:
    run("""
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16))
fn = compiled(model)
with torch.no_grad():
    for turn in range(3):
        x = torch.randn(5, 8)
        before = report.reports()[-1].runner.counters if turn else {}
        torch.testing.assert_close(fn(x), model(x), rtol=1e-4, atol=1e-4)
    after = report.reports()[-1].runner.counters
assert 'target "cuda:0"' in report.reports()[-1].runner.text("program")
new = {k: after[k] - before[k] for k in ("graph_launches", "single_launches")}
assert new == {"graph_launches": 1, "single_launches": 0}, new
""")


def test_an_index_out_of_range_is_reported_at_the_next_call(run: Callable[..., None]) -> None:
    run("""
fn = compiled(lambda x, i: F.embedding(i, x) * 2)
x, good, bad = torch.randn(4, 3), torch.tensor([3, 0, 1]), torch.tensor([1, 7, -2])
want = F.embedding(good, x) * 2
for _ in range(3):
    assert torch.equal(fn(x, good), want)
fn(x, bad)
with raises(gex.IndexOutOfRange, match="range from -2 to 7, .* has 4 elements") as error:
    fn(x, good)
assert "embedding" in str(error.value)
assert torch.equal(fn(x, good), want)
fn(x, bad)
with raises(IndexError, match="range from -2 to 7"):
    gex.synchronize()
gex.synchronize()
assert torch.equal(fn(x, good), want)
assert not report.reports()[-1].calls
""")


def test_indices_of_32_bits_are_checked(run: Callable[..., None]) -> None:
    run("""
fn = compiled(lambda x, i, j: F.embedding(i, x) + x[j] + x.index_select(0, j), dynamic=True)
x = torch.randn(4, 3)
good, back, bad = (torch.tensor(n, dtype=torch.int32) for n in ([3, 0], [2, 1], [1, 4]))
want = F.embedding(good, x) + 2 * x[back]
torch.testing.assert_close(fn(x, good, back), want)
fn(x, bad, back)
with raises(gex.IndexOutOfRange, match="range from 1 to 4, .* has 4 elements"):
    fn(x, good, back)
fn(x, good, bad)
with raises(IndexError, match="range from 1 to 4"):
    gex.synchronize()
torch.testing.assert_close(fn(x, good, back), want)
assert not report.reports()[-1].calls
""")


def test_products_of_overlapping_rows(run: Callable[..., None]) -> None:
    """Of expanded and sliding views, which cuBLAS can't address: sizes above those of few rows."""
    run("""
def expanded(p, x, w):
    return p.expand(x.shape[0], -1) @ w

def sliding(p, x, w):
    return p[0].unfold(0, 64, 1)[: x.shape[0]] @ w[:64]

def transposed(p, x, w):
    return w[:64].t() @ p.expand(64, -1)

p, w = torch.randn(1, 128), torch.randn(128, 48)
for fn in (expanded, sliding, transposed):
    for rows in (33, 40):
        x = torch.randn(rows, 2)
        got = torch.compile(fn, backend="gex", dynamic=rows == 40)(p, x, w)
        torch.testing.assert_close(got, fn(p, x, w), rtol=1e-4, atol=1e-4)

fn = torch.compile(lambda x, w: x @ w, backend="gex")
fn(torch.randn(40, 64), w[:64])
assert "cublas" in report.reports()[-1].runner.text("program")
""")


def test_transposed_convolutions(run: Callable[..., None]) -> None:
    """Their weights are read in reverse, from the last tap on."""
    run("""
torch.set_grad_enabled(False)
for dtype, tolerance in ((torch.float32, 1e-4), (torch.bfloat16, 5e-2)):
    for channels, groups, taps, options in (
        (1, 1, (4, 3), dict(stride=2, padding=1, output_padding=1, dilation=(2, 3))),
        (24, 1, (3, 3), dict(stride=1)),
        (40, 2, (4, 4), dict(stride=2, padding=1)),
    ):
        x = torch.randn(2, channels, 5, 6).to(dtype)
        w = torch.randn(channels, 20 // groups, *taps).to(dtype)
        fn = lambda x, w: F.conv_transpose2d(x, w, groups=groups, **options).tanh()
        want = fn(x.float(), w.float()).to(dtype)
        torch.testing.assert_close(compiled(fn)(x, w), want, rtol=tolerance, atol=tolerance)
        assert not report.reports()[-1].calls
x, w = torch.randn(2, 24, 6, 7), torch.randn(20, 24, 3, 3)
fn = lambda x, w: F.conv2d(x.flip(3), w.flip(2))
torch.testing.assert_close(compiled(fn)(x, w), fn(x, w), rtol=1e-4, atol=1e-4)
""")


@pytest.mark.slow
def test_programs_run_from_their_text_with_the_same_bits(run: Callable[..., None]) -> None:
    """Products, convolutions, attention and a sort, with epilogues and computed operands."""
    run("""
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.LayerNorm(16)
        self.qkv, self.out = torch.nn.Linear(16, 48), torch.nn.Linear(16, 16)

    def forward(self, x):
        x = F.gelu(self.conv(x * 0.5)).flatten(2).transpose(1, 2)
        parts = self.qkv(self.norm(x)).chunk(3, 2)
        q, k, v = (part.unflatten(2, (2, 8)).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(q * 0.3, k, v, is_causal=True)
        y = x + torch.relu(self.out(y.transpose(1, 2).flatten(2)))
        return y, y.mean(2).sort(1).values.cumsum(1)

model = Block().eval()
for dynamic in (False, True):
    fn = compiled(model, dynamic=dynamic)
    x = torch.randn(2, 3, 4, 5)
    with torch.no_grad():
        want, got = model(x), fn(x)
        graph = report.reports()[-1]
        texts = graph.runner.text("program")
        graph.runner.reload_from_text()
        again = fn(x)
    assert graph is report.reports()[-1] and not graph.calls
    assert 'target "cuda:0"' in texts and texts == graph.runner.text("program")
    assert all(word in texts for word in ("conv2d", "attention", "sort", "prologue")), texts
    for a, b, c in zip(want, got, again, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-3, atol=1e-4)
        assert torch.equal(b, c)
""")


def test_ignored_targets_and_several_checks(run: Callable[..., None]) -> None:
    run("""
fn = compiled(lambda s, t, i: F.cross_entropy(s, t) + s[i].sum(), dynamic=True)
for rows in (3, 4):
    s, t, i = torch.randn(rows, 5), torch.tensor([1, -100, 4, 0][:rows]), torch.tensor([-1, 0])
    torch.testing.assert_close(fn(s, t, i), F.cross_entropy(s, t) + s[i].sum())
fn(s, torch.tensor([1, -100, 5, 0]), i)
with raises(IndexError, match="has 5 elements"):
    fn(s, t, i)
fn(s, t, torch.tensor([-5, 0]))
with raises(IndexError, match="range from -5 to 0, .* has 4 elements"):
    fn(s, t, i)
""")


_FAULT = """
fn = compiled(lambda x: (x.cumsum(0) * 2).sum(1))
x = torch.randn(4, 5)
with raises(gex.UserError) as error:
    for _ in range(4):
        fn(x)
assert {expected!r} in str(error.value), str(error.value)
"""


@without_gpu
@pytest.mark.slow
def test_a_fault_is_reported_with_a_hint(run: Callable[..., None]) -> None:
    run(_FAULT.format(expected="GEX_CUDA_CHECK=1"), GEX_FAKE_FAULT="2")


@without_gpu
@pytest.mark.slow
def test_a_fault_names_the_step_if_steps_are_checked(run: Callable[..., None]) -> None:
    run(_FAULT.format(expected='CUDA: step "'), GEX_FAKE_FAULT="1", GEX_CUDA_CHECK="1")


def test_a_report_has_times_of_the_device_and_the_text_of_its_kernels(
    run: Callable[..., None], tmp_path: Path
) -> None:
    tool = tmp_path / "nvdisasm"
    tool.write_text('#!/bin/sh\ntest "$1" = -c && test -s "$2" && echo "SASS of an image"\n')
    tool.chmod(0o755)
    run(
        """
def model(x):
    return torch.softmax(torch.relu(x) * 3, -1) @ x
fn, x = compiled(model), torch.randn(32, 32)
fn(x)
before = report.reports()[-1].runner.counters["single_launches"]
made = gex.report(fn, x)
(graph,) = made.model["graphs"]
assert graph["target"] == "cuda:0"
launches = [k for k, step in enumerate(graph["steps"]) if step["kind"] == "launch"]
events = [event for event in graph["timeline"]["events"] if event[1] >= 0]
of_host = [event[0] for event in graph["timeline"]["events"] if event[1] < 0]
assert of_host == [-2, -3]  # it enqueues, and waits
assert sorted(step for step, *_ in events) == launches, (events, launches)
ends = [0]
for step, worker, begin, end in events:
    assert worker == 0 and ends[-1] <= begin < end, events
    ends.append(end)
assert ends[-1] <= graph["timeline"]["ns"]
texts = [code["cuda"] for code in graph["codes"] if code.get("cuda")]
assert texts and all("words" in text for text in texts)
assert all(code["sass"] == "SASS of an image\\n" for code in graph["codes"] if code.get("cuda"))
assert "by events beside the launches" in made.html()
torch.testing.assert_close(fn(x), model(x), rtol=1e-4, atol=1e-4)
""",
        PATH=f"{tmp_path}:{os.environ['PATH']}",
    )


def test_autotune_uses_the_fastest_form_and_explains_it(run: Callable[..., None]) -> None:
    """The simulated device takes 30 us for a product of the library, 9 for our own kernel."""
    code = """
import re
from gex._gex import wait_for_background
linear = torch.nn.Linear(64, 96, bias=False).requires_grad_(False)
fn = torch.compile(linear, backend="gex", options={"autotune": True})
x = torch.randn(40, 64)
for _ in range(4):
    torch.testing.assert_close(fn(x), linear(x), rtol=1e-4, atol=1e-4)
wait_for_background()
torch.testing.assert_close(fn(x), linear(x), rtol=1e-4, atol=1e-4)
(line,) = [line for line in report.reports()[-1].text().splitlines() if "tuned:" in line]
assert "1x1x40x96x64 matmul f32 f32 f32" in line, line
times = re.search(r": ([^:]+) of cuBLAS ([0-9.]+) us, 64x64 ([0-9.]+) us \\(predicted ", line)
assert times, line
if not torch.cuda.is_available():
    assert times.groups() == ("64x64", "30", "9"), line
    counters = report.reports()[-1].runner.counters
    assert counters["specialised"] == 1, counters
"""
    run(code, GEX_FAKE_KERNEL_TIMES="cublas=30;tiled_product=9")
