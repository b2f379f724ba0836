"""Operators of PyTorch's own sample database: interpreter and compiled code against eager."""

from __future__ import annotations

import pytest
import torch

from conftest import tensors
from gex.errors import GraphNotSupported
from op_samples import comparable_ops, run, samples, trace

pytest.importorskip("expecttest")

TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 2e-2, torch.float16: 4e-3, torch.float64: 1e-7}
OPS = comparable_ops()
# A fixed tenth in every run; the rest are marked slow.
CASES = [
    pytest.param(op, marks=() if i % 10 == 0 else pytest.mark.slow, id=op.formatted_name)
    for i, op in enumerate(OPS)
]


@pytest.mark.parametrize("executor", ["compiled", "interpreter"])
@pytest.mark.parametrize("op", CASES)
def test_operator(op: object, executor: str) -> None:
    compared = 0
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool):
        if dtype not in op.supported_dtypes("cpu"):
            continue
        for sample in samples(op, dtype, limit=3):
            try:
                want = tensors(sample.fn(*(t.clone() for t in sample.tensors)))
                gm = trace(sample)
            except Exception:  # not a sample that eager or the tracer takes
                continue
            try:
                got, _ = run(gm, sample.tensors, executor)
            except GraphNotSupported:
                continue
            got = tensors(got)
            assert len(got) == len(want)
            for a, b in zip(got, want):
                tolerance = TOLERANCE.get(b.dtype, 0)
                torch.testing.assert_close(
                    a, b, rtol=tolerance, atol=tolerance, equal_nan=True, check_stride=b.numel() > 1
                )
            compared += 1
    if compared == 0:
        pytest.skip("no sample that both can run")
