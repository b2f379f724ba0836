"""Operators of PyTorch's own sample database: interpreter and compiled code against eager."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("expecttest")

from op_outcome import outcome
from op_samples import operators, two_dtypes

# A fixed tenth in every run; the rest are marked slow.
CASES = [
    pytest.param(op, i, marks=() if i % 10 == 0 else pytest.mark.slow, id=op.formatted_name)
    for i, op in enumerate(operators())
]


@pytest.mark.parametrize("executor", ["compiled", "interpreter"])
@pytest.mark.parametrize(("op", "index"), CASES)
def test_operator(op: Any, index: int, executor: str) -> None:
    found = {dtype: outcome(op, dtype, 3, executor) for dtype in two_dtypes(op, index)}
    failures = [f"{dtype} {text}" for dtype, o in found.items() for text in o.failures]
    assert not failures, "\n".join(failures)
    if all(o.kind in ("no sample", "untraceable") for o in found.values()):
        pytest.skip("no sample that PyTorch can trace")
