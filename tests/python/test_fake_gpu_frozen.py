"""Parameters that are bound once on CUDA, over a driver library that computes on the host."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import fake_gpu

_HELPERS = """
FROZEN = {"frozen_parameter": True}

def close(got, expected):
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)

def last():
    return report.reports()[-1].runner

def inputs():
    return [line for line in last().text("program").splitlines() if line.startswith("input ")]

torch.set_grad_enabled(False)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., None]:
    run_code = fake_gpu.code_runner(tmp_path_factory.mktemp("driver"))
    return lambda code, **variables: run_code(_HELPERS + code, **variables)


def test_parameters_are_no_arguments_and_are_read_again_on_request(
    run: Callable[..., None],
) -> None:
    run("""
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))
fn = compiled(model, options=FROZEN)
for rows in (3, 3, 3):
    x = torch.randn(rows, 8)
    close(fn(x), model(x))
assert len(inputs()) == 1, inputs()
assert 'target "cuda:0"' in last().text("program")
for parameter in model.parameters():
    parameter.data.mul_(-2)
assert gex.refresh(model) == 1
for _ in range(3):
    close(fn(x), model(x))
assert last().counters["single_launches"] == 0
""")


def test_what_depends_on_parameters_alone_is_computed_once_on_the_device(
    run: Callable[..., None],
) -> None:
    """Convolution weights with the batch norm's, weights in one product: host code must not read
    the copies."""
    run(
        """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(2, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2)
        self.q, self.k, self.v = (torch.nn.Linear(16, 16) for _ in range(3))

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x))).flatten(1)
        return self.q(x), self.k(x), self.v(x)

model = Model().eval()
fn = compiled(model, options=FROZEN)
for _ in range(3):
    x = torch.randn(5, 2, 4, 4)
    for got, expected in zip(fn(x), model(x)):
        close(got, expected)
assert last().counters["folded_with_frozen"] > 0
model.conv.weight.data.mul_(3)
model.norm.running_mean.add_(1)
gex.refresh(model)
for got, expected in zip(fn(x), model(x)):
    close(got, expected)
""",
        GEX_FAKE_CUDA_PROTECT="1",
    )


def test_an_exported_module_keeps_its_parameters_on_the_device(run: Callable[..., None]) -> None:
    run("""
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)).eval()
x = torch.randn(4, 8)
fn = gex.compile(model, (x,))
for _ in range(3):
    close(fn(x), model(x))
assert len(inputs()) == 1, inputs()
model[0].weight.data.mul_(2)
gex.refresh(fn)
close(fn(x), model(x))
""")


def test_changes_without_a_request_are_noticed(run: Callable[..., None]) -> None:
    run(
        """
model = torch.nn.Linear(8, 4)
fn = compiled(model, options=FROZEN)
x = torch.randn(3, 8)
fn(x)
with raises(gex.UserError, match="contents of the frozen parameter .*weight.* have changed"):
    model.weight.data.add_(1)
    fn(x)
""",
        GEX_CHECK_FROZEN="1",
    )


@pytest.mark.skipif(fake_gpu.has_gpu(), reason="there is a GPU: its driver does not count")
def test_a_call_sends_only_what_changed(run: Callable[..., None]) -> None:
    """Of the parameter block; a result at the address of the one before changes nothing."""
    run("""
import ctypes
model = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(6)))
fn, x = compiled(model), torch.randn(4, 8)
before = fake_gpu.driver_counts()
first = fn(x)
sent = fake_gpu.driver_counts()[1] - before[1]
assert sent > 300, sent
fn(x)  # makes the graph
kept = []
before = fake_gpu.driver_counts()
for _ in range(10):
    kept.append(fn(x))  # at another address each time
calls, bytes_sent = (b - a for a, b in zip(before, fake_gpu.driver_counts()))
assert bytes_sent == 10 * 8, bytes_sent
assert calls <= 10 * 7, calls
other = torch.randn(4, 8)
close(fn(other), model(other))
for result in kept:
    close(result, model(x))
assert last().counters["single_launches"] == 0
""")
