"""ONNX models that once gave wrong results or were refused, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gex.onnx
from onnx_random import Case, Fixed, difference, model_of, theirs_of

MS = "com.microsoft"
rng = np.random.default_rng(0)


class Named:
    """Chooses sizes that are names, or numbers, for model_of."""

    def __init__(self, named: bool) -> None:
        self.named = named

    def random(self) -> float:
        return 0.0 if self.named else 1.0

    def integers(self, *_: int) -> int:
        return 18


def check(made: Case, named: bool) -> None:
    model, feeds = model_of(made, Named(named))  # type: ignore[arg-type]
    theirs = theirs_of(model, feeds)
    assert theirs is not None, "onnxruntime refuses the model"
    assert difference(list(gex.onnx.loads(model).run(feeds)), theirs, made) is None


def normal(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("size", [7, 8])
@pytest.mark.parametrize("wanted", [2, 5, 12])
def test_center_crop_pad(named: bool, size: int, wanted: int) -> None:
    check(Case("CenterCropPad", [normal(size), Fixed(ints(wanted))], {"axes": [0]}), named)


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("width", [2, 3, 5, 8])
def test_windows_that_would_begin_in_the_padding(named: bool, op: str, width: int) -> None:
    attrs = {"kernel_shape": [2], "strides": [2], "pads": [0, 1], "ceil_mode": 1}
    check(Case(op, [normal(2, 3, width)], attrs), named)


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("start", [-9, -2, 0, 1, 9])
@pytest.mark.parametrize("end", [-9, -2, 0])
def test_backward_slice_from_outside(named: bool, start: int, end: int) -> None:
    parts = [Fixed(ints(v)) for v in (start, end, 0, -2)]
    check(Case("Slice", [normal(5, 2), *parts]), named)


@pytest.mark.parametrize("named", [False, True])
def test_convolution_with_weights_of_unknown_sizes(named: bool) -> None:
    x = rng.integers(0, 255, (1, 4, 9, 8)).astype(np.uint8)
    w = rng.integers(0, 255, (6, 2, 3, 2)).astype(np.uint8)
    check(Case("ConvInteger", [x, w, Fixed(np.array(9, np.uint8))], {"group": 2}), named)


def test_empty_results() -> None:
    check(Case("Tile", [normal(3, 0, 2), Fixed(ints(2, 1, 0))]), False)
    check(Case("Hardmax", [normal(3, 0)]), False)


def test_skip_norm_has_a_small_default_epsilon() -> None:
    x = normal(2, 3, 1) * 0.01
    check(Case("SkipSimplifiedLayerNormalization", [x, x, normal(1)], domain=MS), False)


@pytest.mark.parametrize("mask", ["none", "lengths", "ranges", "keys", "queries"])
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("with_past", [False, True])
def test_attention_with_weights(mask: str, causal: int, with_past: bool) -> None:
    batch, steps, heads, size, past = 2, 3, 2, 4, 2 if with_past else 0
    total = past + steps
    masks: dict[str, Any] = {
        "none": None,
        "lengths": np.array([total, total - 1], np.int32),
        "ranges": np.array([total, total - 1, 0, 1], np.int32),
        "keys": np.array([[1] * total, [1, 0] + [1] * (total - 2)], np.int32),
        "queries": np.ones((batch, steps, total), np.int32),
    }
    width = heads * size
    inputs: list[Any] = [normal(batch, steps, 5), Fixed(normal(5, 3 * width))]
    inputs += [Fixed(normal(3 * width)), masks[mask]]
    if with_past:
        inputs.append(normal(2, batch, heads, past, size))
    while inputs[-1] is None:
        inputs.pop()
    attrs = {"num_heads": heads, "unidirectional": causal}
    check(Case("Attention", inputs, attrs, 2 if with_past else 1, MS, tolerance=1e-4), False)


def test_multi_head_attention_with_a_mask() -> None:
    batch, heads, steps, width = 2, 3, 4, 12
    inputs: list[Any] = [normal(batch, steps, width) for _ in range(3)]
    inputs += [normal(3 * width), np.array([[1, 1, 0, 1], [1, 0, 0, 1]], np.int32)]
    check(
        Case("MultiHeadAttention", inputs, {"num_heads": heads}, domain=MS, tolerance=1e-4), False
    )


def test_packed_multi_head_attention() -> None:
    """onnxruntime has it on GPUs alone."""
    batch, heads, steps, size = 2, 3, 4, 4
    apart = [normal(batch, steps, heads, 1, size) for _ in range(3)]
    q, k, v = (x.reshape(batch, steps, heads * size) for x in apart)
    results = []
    for inputs in ([q, k, v], [np.concatenate(apart, 3)], [q, np.concatenate(apart[1:], 3)]):
        made = Case("MultiHeadAttention", inputs, {"num_heads": heads}, domain=MS)
        model, feeds = model_of(made, Named(False))  # type: ignore[arg-type]
        results.append(gex.onnx.loads(model).run(feeds)[0])
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


@pytest.mark.parametrize("cap", [0.0, 2.0])
@pytest.mark.parametrize("with_bias", [False, True])
def test_group_query_attention(cap: float, with_bias: bool) -> None:
    batch, heads, kv_heads, past, size = 2, 4, 2, 3, 8
    inputs: list[Any] = [normal(batch, 1, n * size) for n in (heads, kv_heads, kv_heads)]
    inputs += [normal(batch, kv_heads, past, size) for _ in range(2)]
    inputs += [np.full(batch, past, np.int32), Fixed(np.array(past + 1, np.int32))]
    if with_bias:
        inputs += [None, None, None, normal(batch, heads, 1, past + 1)]
    attrs = {"num_heads": heads, "kv_num_heads": kv_heads, "softcap": cap}
    check(Case("GroupQueryAttention", inputs, attrs, 3, MS, tolerance=1e-4), False)


def test_inputs_that_are_not_computed_are_refused() -> None:
    inputs: list[Any] = [normal(1, 1, 16), normal(1, 1, 8), normal(1, 1, 8), None, None]
    inputs += [np.zeros(1, np.int32), Fixed(np.array(1, np.int32)), None, None, None, None]
    made = Case("GroupQueryAttention", [*inputs, normal(2)], {"num_heads": 2, "kv_num_heads": 1})
    made.domain = MS
    model, feeds = model_of(made, Named(False))  # type: ignore[arg-type]
    with pytest.raises(gex.Error, match="head_sink is not supported"):
        gex.onnx.loads(model).run(feeds)


@pytest.mark.parametrize("activation", ["Relu", "Tanh", "LeakyRelu", "HardSigmoid", "Clip"])
def test_fused_convolution(activation: str) -> None:
    attrs: dict[str, Any] = {"activation": activation, "pads": [1, 1, 1, 1]}
    numbers = {"LeakyRelu": [0.3], "HardSigmoid": [0.3, 0.4], "Clip": [-0.5, 0.5]}
    if activation in numbers:
        attrs["activation_params"] = numbers[activation]
    inputs = [normal(1, 3, 6, 5), Fixed(normal(4, 3, 3, 3)), Fixed(normal(4)), normal(1, 4, 6, 5)]
    check(Case("FusedConv", inputs, attrs, domain=MS), False)


def test_fused_gemm() -> None:
    attrs = {"activation": "LeakyRelu", "activation_alpha": 0.3, "transB": 1, "alpha": 0.5}
    check(Case("FusedGemm", [normal(5, 4), normal(3, 4), normal(3)], attrs, domain=MS), False)


@pytest.mark.parametrize("count_include_pad", [0, 1])
def test_quantised_average_pool(count_include_pad: int) -> None:
    x = rng.integers(0, 255, (1, 3, 8, 7)).astype(np.uint8)
    parameters = [np.float32(0.03), np.uint8(40), np.float32(0.02), np.uint8(30)]
    inputs = [x, *(Fixed(np.asarray(p)) for p in parameters)]
    attrs = {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1]}
    attrs["count_include_pad"] = count_include_pad  # type: ignore[assignment]
    check(Case("QLinearAveragePool", inputs, attrs, domain=MS, steps=1), False)
