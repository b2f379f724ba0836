"""How samples of operators are judged where a GPU's own rounding or launches matter."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import torch
from torch.fx.experimental.proxy_tensor import make_fx

import op_outcome
from op_samples import Sample


def test_an_operator_that_launches_while_traced_is_run_but_not_traced() -> None:
    calls = []

    def function(x: torch.Tensor) -> torch.Tensor:
        calls.append(type(x))
        return x + 1

    def sample_inputs(*_: object, **__: object) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(input=torch.ones(2), args=(), kwargs={})

    op = SimpleNamespace(name="jiterator_unary", op=function, sample_inputs=sample_inputs)
    found = op_outcome.outcome(op, torch.float32, 2)
    assert found.kind == "untraceable" and not found.failures
    assert calls == [torch.Tensor]


def test_complex_results_are_measured_against_wider_ones() -> None:
    x = torch.randn(8, dtype=torch.complex64)
    gm = make_fx(lambda t: [t * t])(x)
    sample = Sample(lambda t: (t * t,), [x])
    exact = x.to(torch.complex128) ** 2
    eager = (exact + 1e-6).to(torch.complex64)
    close, far = ((exact + off).to(torch.complex64) for off in (1.5e-6, 1e-5))
    assert op_outcome._is_no_farther(gm, sample, 0, close, eager)
    assert not op_outcome._is_no_farther(gm, sample, 0, far, eager)
    assert op_outcome.TOLERANCE[torch.complex32] == op_outcome.TOLERANCE[torch.float16]
