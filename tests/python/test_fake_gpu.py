"""torch.compile for CUDA, over a driver library that computes on the host."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import fake_gpu


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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_fault_is_reported_with_a_hint(run: Callable[..., None]) -> None:
    run(_FAULT.format(expected="GEX_CUDA_CHECK=1"), GEX_FAKE_FAULT="2")


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
