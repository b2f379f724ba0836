"""Random models of onnx_random.py: convolutions, pools, products, norms, cells, resampling."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_random import (
    Case,
    Fixed,
    Rng,
    axis_of,
    broadcast_pair,
    case,
    chance,
    choose,
    maybe_fixed,
    numbers,
    shape,
    some,
)


def windows(rng: Rng, axes: int, pads: bool = True, dilated: bool = True) -> dict[str, Any]:
    """Attributes of a convolution or pool, and sizes of an image that has windows."""
    kernel = [int(k) for k in rng.integers(1, 5, axes)]
    stride = [int(k) for k in rng.integers(1, 4, axes)]
    dilation = [int(k) for k in rng.integers(1, 3, axes)] if dilated else [1] * axes
    extent = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    attrs: dict[str, Any] = {"kernel_shape": kernel, "strides": stride}
    if dilated:
        attrs["dilations"] = dilation
    if pads and chance(rng, 0.3) and max(dilation) == 1:
        attrs["auto_pad"] = choose(rng, ["SAME_UPPER", "SAME_LOWER", "VALID"])
        if attrs["auto_pad"] != "VALID":  # else onnxruntime crops by negative pads
            attrs["strides"] = [min(s, k) for s, k in zip(stride, kernel)]
    elif pads:
        attrs["pads"] = [int(rng.integers(0, k)) for k in kernel * 2]
    attrs["sizes"] = [int(e + rng.integers(0, 9)) for e in extent]
    return attrs


@case
def convolution(rng: Rng) -> Case:
    axes = int(rng.integers(1, 4))
    attrs = windows(rng, axes)
    sizes, kernel = attrs.pop("sizes"), attrs["kernel_shape"]
    group, per, out = (int(k) for k in rng.integers(1, 5, 3))
    if chance(rng, 0.3):
        per = 1
    dtype = choose(rng, [np.float32, np.float32, np.float64])
    x = numbers(rng, [int(rng.integers(1, 3)), group * per, *sizes], dtype)
    w = maybe_fixed(rng, numbers(rng, [group * out, per, *kernel], dtype), 0.8)
    inputs = [x, w]
    if chance(rng):
        inputs.append(maybe_fixed(rng, numbers(rng, [group * out], dtype)))
    return Case("Conv", inputs, {**attrs, "group": group})


@case
def transposed_convolution(rng: Rng) -> Case:
    axes = int(rng.integers(1, 4))
    attrs = windows(rng, axes)
    sizes, kernel = attrs.pop("sizes"), attrs["kernel_shape"]
    sizes = [min(s, 6) for s in sizes]
    group, per, out = (int(k) for k in rng.integers(1, 4, 3))
    x = numbers(rng, [int(rng.integers(1, 3)), group * per, *sizes])
    w = maybe_fixed(rng, numbers(rng, [group * per, out, *kernel]), 0.8)
    if chance(rng, 0.3):
        attrs["output_padding"] = [int(rng.integers(0, s)) for s in attrs["strides"]]
    inputs = [x, w, numbers(rng, [group * out])] if chance(rng) else [x, w]
    return Case("ConvTranspose", inputs, {**attrs, "group": group})


def byte_operands(rng: Rng, x_shape: list[int], w_shape: list[int], per_channel: bool) -> list[Any]:
    x_type, w_type = choose(rng, [np.uint8, np.int8]), choose(rng, [np.uint8, np.int8])
    x, w = numbers(rng, x_shape, x_type, -128, 255), numbers(rng, w_shape, w_type, -128, 255)
    count: Any = [w_shape[0]] if per_channel else []
    zero = choose(rng, [np.zeros(count), np.full(count, 128 if w_type == np.uint8 else 3)])
    x_zero = numbers(rng, [], x_type, -100, 200)
    return [x, x_zero, w, zero.astype(w_type)]


@case
def integer_convolution(rng: Rng) -> Case:
    attrs = windows(rng, 2 if chance(rng, 0.8) else 1)
    sizes, kernel = attrs.pop("sizes"), attrs["kernel_shape"]
    group = choose(rng, [1, 1, 2, 3, 8])
    per, out = choose(rng, [1, 1, 3, 4, 7]), choose(rng, [1, 2, 13])
    x, x_zero, w, w_zero = byte_operands(
        rng, [int(rng.integers(1, 3)), group * per, *sizes], [group * out, per, *kernel], False
    )
    inputs = [x, maybe_fixed(rng, w, 0.8), maybe_fixed(rng, x_zero, 0.7), Fixed(w_zero)]
    return Case("ConvInteger", inputs[: int(rng.integers(2, 5))], {**attrs, "group": group})


@case
def quantised_convolution(rng: Rng) -> Case:
    attrs = windows(rng, 2 if chance(rng, 0.8) else 1)
    sizes, kernel = attrs.pop("sizes"), attrs["kernel_shape"]
    group = choose(rng, [1, 1, 2, 3, 8])
    per, out = choose(rng, [1, 1, 3, 4, 7]), choose(rng, [1, 2, 13])
    channels = group * out
    per_channel = chance(rng)
    x, x_zero, w, w_zero = byte_operands(
        rng, [int(rng.integers(1, 3)), group * per, *sizes], [channels, per, *kernel], per_channel
    )
    scale = numbers(rng, [channels] if per_channel else [], np.float32, 0.005, 0.02)
    y_zero = numbers(rng, [], x.dtype, -50, 150)
    inputs = [x, Fixed(np.float32(0.02)), Fixed(x_zero), Fixed(w), Fixed(scale), Fixed(w_zero)]
    inputs += [Fixed(np.float32(0.5)), Fixed(y_zero)]
    if chance(rng):
        inputs.append(Fixed(numbers(rng, [channels], np.int32, -3000, 3000)))
    inputs[1], inputs[6] = (Fixed(np.asarray(f.array)) for f in (inputs[1], inputs[6]))
    return Case("QLinearConv", inputs, {**attrs, "group": group}, steps=1)


@case
def pool(rng: Rng) -> Case:
    axes = int(rng.integers(1, 4))
    op = choose(rng, ["MaxPool", "AveragePool", "LpPool"])
    opset = choose(rng, [11, 12, 18, 19, 22])
    dilated = op == "MaxPool" or opset >= 19 or (op == "LpPool" and opset >= 18)
    attrs = windows(rng, axes, dilated=dilated)
    x = numbers(rng, [int(rng.integers(1, 3)), int(rng.integers(1, 4)), *attrs.pop("sizes")])
    if op == "AveragePool":
        attrs |= some(rng, count_include_pad=1)
    if op == "LpPool":
        attrs |= some(rng, p=int(rng.integers(1, 4)))
    if op != "LpPool" and "auto_pad" not in attrs:
        attrs |= some(rng, ceil_mode=1)
    outputs = 2 if op == "MaxPool" and chance(rng, 0.3) else 1
    return Case(op, [x], attrs, outputs, opset=opset)


@case
def global_pool(rng: Rng) -> Case:
    op = choose(rng, ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
    return Case(op, [numbers(rng, shape(rng, 3, 5, empty=0))])


@case
def gemm(rng: Rng) -> Case:
    m, n, k = (int(d) for d in rng.integers(1, 40, 3))
    attrs = some(
        rng, transA=1, transB=1, alpha=float(rng.uniform(0, 2)), beta=float(rng.uniform(0, 2))
    )
    dtype = choose(rng, [np.float32, np.float32, np.float64])
    a = numbers(rng, [k, m] if "transA" in attrs else [m, k], dtype)
    b = maybe_fixed(rng, numbers(rng, [n, k] if "transB" in attrs else [k, n], dtype))
    c = maybe_fixed(
        rng, numbers(rng, choose(rng, [[], [n], [1, n], [m, 1], [m, n], [1, 1]]), dtype)
    )
    return Case("Gemm", [a, b, c] if chance(rng, 0.8) else [a, b], attrs)


def matrices(rng: Rng) -> tuple[list[int], list[int]]:
    m, n, k = (int(d) for d in rng.integers(1, 20, 3))
    left, right = broadcast_pair(rng)
    a, b = [*left[-2:], m, k], [*right[-2:], k, n]
    if chance(rng, 0.15):
        a = [k]
    if chance(rng, 0.15):
        b = [k]
    return a, b


@case
def matmul(rng: Rng) -> Case:
    a, b = matrices(rng)
    dtype = choose(rng, [np.float32, np.float64, np.int32, np.int64, np.float16])
    return Case("MatMul", [numbers(rng, a, dtype), maybe_fixed(rng, numbers(rng, b, dtype))])


@case
def integer_matmul(rng: Rng) -> Case:
    a, b = matrices(rng)
    if len(a) < 2 or len(b) < 2:
        a, b = [5, 7], [7, 9]
    x, x_zero, w, w_zero = byte_operands(rng, a, b, False)
    inputs = [x, maybe_fixed(rng, w), maybe_fixed(rng, x_zero), maybe_fixed(rng, w_zero)]
    return Case("MatMulInteger", inputs[: int(rng.integers(2, 5))])


@case
def softmax(rng: Rng) -> Case:
    x = numbers(rng, shape(rng, 1), choose(rng, [np.float32, np.float64]))
    op = choose(rng, ["Softmax", "LogSoftmax", "Hardmax"])
    return Case(op, [x], some(rng, axis=axis_of(rng, x.ndim)), opset=choose(rng, [11, 13, 18]))


@case
def layer_norm(rng: Rng) -> Case:
    x = numbers(rng, shape(rng, 1, empty=0), choose(rng, [np.float32, np.float32, np.float16]))
    axis = axis_of(rng, x.ndim)
    tail = list(x.shape[axis:])
    scale = numbers(rng, tail, x.dtype)
    inputs = [x, scale, numbers(rng, tail, x.dtype)] if chance(rng) else [x, scale]
    attrs = {"axis": axis, **some(rng, epsilon=1e-3)}
    return Case(
        "LayerNormalization", inputs, attrs, int(rng.integers(1, 4)), opset=17, tolerance=1e-4
    )


@case
def rms_norm(rng: Rng) -> Case:
    x = numbers(rng, shape(rng, 1, empty=0))
    axis = axis_of(rng, x.ndim)
    inputs = [x, numbers(rng, list(x.shape[axis:]))]
    return Case("RMSNormalization", inputs, {"axis": axis}, opset=23, tolerance=1e-4)


@case
def channel_norm(rng: Rng) -> Case:
    op = choose(rng, ["InstanceNormalization", "GroupNormalization", "BatchNormalization"])
    x = numbers(rng, shape(rng, 3, 5, empty=0))
    c = x.shape[1]
    scale, bias = numbers(rng, [c]), numbers(rng, [c])
    if op == "GroupNormalization":
        groups = choose(rng, [g for g in range(1, c + 1) if c % g == 0])
        return Case(op, [x, scale, bias], {"num_groups": groups}, opset=21, tolerance=1e-4)
    inputs = [x, scale, bias]
    if op == "BatchNormalization":
        inputs += [numbers(rng, [c]), numbers(rng, [c], np.float32, 0.5, 2)]
    return Case(op, inputs, some(rng, epsilon=1e-2), opset=15, tolerance=1e-4)


@case
def other_norm(rng: Rng) -> Case:
    x = numbers(rng, shape(rng, 3, 4, empty=0), np.float32, 0.1, 3)
    if chance(rng, 0.4):
        return Case(
            "LRN",
            [x],
            {"size": int(rng.integers(1, 6)), **some(rng, alpha=0.1, beta=0.5, bias=2.0)},
        )
    if chance(rng):
        return Case("LpNormalization", [x], some(rng, axis=axis_of(rng, x.ndim), p=1))
    return Case("MeanVarianceNormalization", [x], {"axes": [0, 2]}, tolerance=1e-4)


@case
def recurrent(rng: Rng) -> Case:
    op = choose(rng, ["RNN", "LSTM", "GRU"])
    gates = {"RNN": 1, "LSTM": 4, "GRU": 3}[op]
    direction = choose(rng, ["forward", "reverse", "bidirectional"])
    d = 2 if direction == "bidirectional" else 1
    steps, batch, size, hidden = (int(k) for k in rng.integers(1, 6, 4))
    inputs: list[Any] = [
        numbers(rng, [steps, batch, size]),
        maybe_fixed(rng, numbers(rng, [d, gates * hidden, size], low=-1, high=1), 0.8),
        maybe_fixed(rng, numbers(rng, [d, gates * hidden, hidden], low=-1, high=1), 0.8),
        numbers(rng, [d, 2 * gates * hidden], low=-1, high=1) if chance(rng) else None,
        rng.integers(1, steps + 1, batch).astype(np.int32) if chance(rng, 0.3) else None,
        numbers(rng, [d, batch, hidden], low=-1, high=1) if chance(rng) else None,
    ]
    if op == "LSTM":
        inputs.append(numbers(rng, [d, batch, hidden], low=-1, high=1) if chance(rng) else None)
        inputs.append(numbers(rng, [d, 3 * hidden], low=-1, high=1) if chance(rng, 0.3) else None)
    attrs = {"direction": direction, "hidden_size": hidden, **some(rng, clip=0.5)}
    if op == "GRU":
        attrs |= some(rng, linear_before_reset=1)
    if chance(rng, 0.3):
        kinds = ["Tanh", "Sigmoid", "Relu", "Softsign"]
        count = {"RNN": 1, "GRU": 2, "LSTM": 3}[op]
        attrs["activations"] = [choose(rng, kinds) for _ in range(count * d)]
    while inputs[-1] is None:
        inputs.pop()
    return Case(op, inputs, attrs, 3 if op == "LSTM" else 2, opset=14, tolerance=1e-4)


@case
def resize(rng: Rng) -> Case:
    x = numbers(rng, [1, int(rng.integers(1, 3)), *(int(d) for d in rng.integers(2, 8, 2))])
    mode = choose(rng, ["nearest", "linear", "cubic"])
    where = [
        "half_pixel",
        "pytorch_half_pixel",
        "align_corners",
        "asymmetric",
        "half_pixel_symmetric",
    ]
    attrs: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": choose(rng, where)}
    if mode == "nearest":
        kinds = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
        attrs |= some(rng, nearest_mode=choose(rng, kinds))
    if mode == "cubic":
        attrs |= some(rng, cubic_coeff_a=-0.5, exclude_outside=1)
    if mode != "nearest" and chance(rng, 0.3):
        attrs["antialias"] = 1
    if chance(rng):
        sizes = np.array([*x.shape[:2], *rng.integers(1, 13, 2)], np.int64)
        return Case(
            "Resize", [x, None, None, maybe_fixed(rng, sizes, 0.8)], attrs, opset=19, tolerance=1e-4
        )
    scales = np.array([1, 1, *rng.choice([0.5, 0.7, 1.5, 2, 2.5, 3], 2)], np.float32)
    return Case("Resize", [x, None, maybe_fixed(rng, scales, 0.8)], attrs, opset=19, tolerance=1e-4)


@case
def grid_sample(rng: Rng) -> Case:
    n, c, h, w, oh, ow = (int(d) for d in rng.integers(1, 6, 6))
    modes = ["linear", "nearest", "cubic"]
    attrs = {
        "mode": choose(rng, modes),
        "padding_mode": choose(rng, ["zeros", "border", "reflection"]),
    }
    attrs["align_corners"] = int(chance(rng))
    grid = numbers(rng, [n, oh, ow, 2], low=-1.3, high=1.3)
    return Case("GridSample", [numbers(rng, [n, c, h, w]), grid], attrs, opset=20, tolerance=1e-4)


@case
def roi_align(rng: Rng) -> Case:
    c, h, w = (int(d) for d in rng.integers(2, 8, 3))
    count = int(rng.integers(1, 4))
    corners = rng.uniform(0, 5, (count, 2))
    rois = np.concatenate([corners, corners + rng.uniform(0.5, 5, (count, 2))], 1).astype(
        np.float32
    )
    attrs = {"output_height": int(rng.integers(1, 4)), "output_width": int(rng.integers(1, 4))}
    attrs |= some(rng, sampling_ratio=2, spatial_scale=0.5, mode="max")
    attrs |= some(rng, coordinate_transformation_mode="output_half_pixel")
    at = rng.integers(0, 2, count).astype(np.int64)
    return Case("RoiAlign", [numbers(rng, [2, c, h, w]), rois, at], attrs, opset=16, tolerance=1e-4)


@case
def non_max_suppression(rng: Rng) -> Case:
    batch, classes, count = (int(d) for d in rng.integers(1, 6, 3))
    corners = rng.uniform(0, 4, (batch, count, 2))
    boxes = np.concatenate([corners, corners + rng.uniform(0.5, 3, (batch, count, 2))], 2)
    scores = rng.uniform(0, 1, (batch, classes, count))
    limits = [np.array(rng.integers(0, 4), np.int64), np.float32(0.4), np.float32(0.3)]
    inputs = [
        boxes.astype(np.float32),
        scores.astype(np.float32),
        *(Fixed(np.asarray(v)) for v in limits),
    ]
    return Case(
        "NonMaxSuppression", inputs[: int(rng.integers(3, 6))], some(rng, center_point_box=1)
    )


@case
def quantise(rng: Rng) -> Case:
    x = numbers(rng, shape(rng, 1, empty=0), np.float32, -30, 30)
    axis = axis_of(rng, x.ndim)
    dtype = choose(rng, [np.uint8, np.int8, np.uint16, np.int16])
    count: Any = [x.shape[axis]] if chance(rng) else []
    scale = numbers(rng, count, np.float32, 0.1, 0.5)
    zero = numbers(rng, count, dtype, -50, 100)
    return Case("QuantizeLinear", [x, scale, zero], {"axis": axis}, opset=21, steps=1)


@case
def dequantise(rng: Rng) -> Case:
    dtype = choose(rng, [np.uint8, np.int8, np.uint16, np.int16, np.int32])
    x = numbers(rng, shape(rng, 1, empty=0), dtype, -128, 255)
    axis = axis_of(rng, x.ndim)
    count: Any = [x.shape[axis]] if chance(rng) else []
    inputs = [x, maybe_fixed(rng, numbers(rng, count, np.float32, 0.1, 0.5))]
    if dtype != np.int32 and chance(rng):
        inputs.append(maybe_fixed(rng, numbers(rng, count, dtype, -50, 100)))
    return Case("DequantizeLinear", inputs, {"axis": axis}, opset=21)


@case
def attention(rng: Rng) -> Case:
    batch, rows, past, size = (int(d) for d in rng.integers(1, 5, 4))
    kv_heads = int(rng.integers(1, 3))
    heads = kv_heads * int(rng.integers(1, 3))
    keys = rows if chance(rng) else int(rng.integers(1, 7))
    q = numbers(rng, [batch, heads, rows, size])
    k, v = (numbers(rng, [batch, kv_heads, keys, size]) for _ in range(2))
    inputs: list[Any] = [q, k, v]
    total = keys
    with_past = chance(rng, 0.3)
    total += past if with_past else 0
    mask = numbers(
        rng,
        choose(rng, [[rows, total], [batch, 1, rows, total]]),
        choose(rng, [np.float32, np.bool_]),
    )
    inputs.append(mask if chance(rng) else None)
    if with_past:
        inputs += [numbers(rng, [batch, kv_heads, past, size]) for _ in range(2)]
    while inputs[-1] is None:
        inputs.pop()
    attrs = some(rng, is_causal=1, scale=0.3, softcap=2.0)
    return Case("Attention", inputs, attrs, 3 if with_past else 1, opset=23, tolerance=1e-4)


@case
def rotary(rng: Rng) -> Case:
    batch, heads, steps, half = (int(d) for d in rng.integers(1, 5, 4))
    x = numbers(rng, [batch, heads, steps, half * 2])
    tables = [numbers(rng, [9, half], low=-1, high=1) for _ in range(2)]
    at = rng.integers(0, 9, [batch, steps]).astype(np.int64)
    return Case("RotaryEmbedding", [x, *tables, at], some(rng, interleaved=1), opset=23)


@case
def loss(rng: Rng) -> Case:
    sizes = shape(rng, 2, 4, empty=0)
    x = numbers(rng, sizes)
    target = rng.integers(0, sizes[1], [sizes[0], *sizes[2:]]).astype(np.int64)
    inputs: list[Any] = [x, target]
    if chance(rng):
        inputs.append(numbers(rng, [sizes[1]], low=0.1, high=1))
    attrs = some(rng, reduction=choose(rng, ["none", "sum", "mean"]), ignore_index=0)
    op = choose(rng, ["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"])
    return Case(op, inputs, attrs, opset=13)


@case
def dft(rng: Rng) -> Case:
    size = int(rng.integers(1, 12))
    x = numbers(rng, [2, size, 3, choose(rng, [1, 2])])
    length = Fixed(np.array(int(rng.integers(1, 14)), np.int64)) if chance(rng) else None
    attrs: dict[str, Any] = some(rng, inverse=1)
    if "inverse" not in attrs and x.shape[-1] == 1:
        attrs |= some(rng, onesided=1)
    return Case(
        "DFT", [x, length] if length else [x], {"axis": 1, **attrs}, opset=17, tolerance=1e-4
    )


@case
def stft(rng: Rng) -> Case:
    frame, step = int(rng.integers(2, 9)), int(rng.integers(1, 5))
    signal = numbers(rng, [2, frame + int(rng.integers(0, 20)), 1])
    window = numbers(rng, [frame], low=0, high=1) if chance(rng) else None
    inputs = [signal, Fixed(np.array(step, np.int64)), window, Fixed(np.array(frame, np.int64))]
    return Case("STFT", inputs, {"onesided": int(chance(rng))}, opset=17, tolerance=1e-4)


@case
def window_function(rng: Rng) -> Case:
    op = choose(rng, ["HannWindow", "HammingWindow", "BlackmanWindow"])
    size = np.array(rng.integers(2, 20), np.int64)
    return Case(op, [maybe_fixed(rng, size)], some(rng, periodic=0), opset=17)
