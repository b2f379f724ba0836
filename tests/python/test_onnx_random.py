"""A fixed number of random ONNX models against onnxruntime: see onnx_random.py."""

from __future__ import annotations

import pytest

import onnx_random
import onnx_random_contrib
import onnx_random_neural
import onnx_random_tensor

MODULES = [onnx_random_contrib, onnx_random_neural, onnx_random_tensor]
SEEDS = 6


@pytest.mark.parametrize("name", sorted(onnx_random.CASES))
def test_equals_onnxruntime(name: str) -> None:
    outcomes = [onnx_random.one(name, seed) for seed in range(SEEDS)]
    differences = [
        f"seed {seed}: {onnx_random.describe(made)}\n  {wrong}"
        for seed, (made, wrong) in enumerate(outcomes)
        if wrong
    ]
    assert not differences, "\n".join(differences)
    assert any(wrong is None for _, wrong in outcomes), "onnxruntime refuses all of these models"


def test_all_modules_have_cases() -> None:
    makers = {maker.__module__ for maker in onnx_random.CASES.values()}
    assert makers == {module.__name__ for module in MODULES}


def test_a_wrong_result_is_seen() -> None:
    made = onnx_random.Case("Relu", [])
    right = onnx_random.numbers(onnx_random.np.random.default_rng(0), [3, 4])
    wrong = right.copy()
    wrong[1, 2] += 0.1
    assert onnx_random.difference([right], [right], made) is None
    assert "(1, 2)" in str(onnx_random.difference([wrong], [right], made))
    assert "shape" in str(onnx_random.difference([right[0]], [right], made))
