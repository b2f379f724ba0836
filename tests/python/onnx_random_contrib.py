"""Random models of onnx_random.py: operators of com.microsoft and ai.onnx.ml."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_random import (
    Case,
    Fixed,
    Rng,
    broadcast_pair,
    case,
    chance,
    choose,
    maybe_fixed,
    numbers,
    shape,
    some,
)

MS = "com.microsoft"
ML = "ai.onnx.ml"


def fixed(value: Any, dtype: Any = np.float32) -> Fixed:
    return Fixed(np.asarray(value, dtype))


@case
def ms_gelu(rng: Rng) -> Case:
    x = numbers(rng, shape(rng, 1, empty=0), np.float32)
    op = choose(rng, ["Gelu", "FastGelu", "QuickGelu", "BiasGelu"])
    bias = numbers(rng, [x.shape[-1]])
    inputs = [x, bias] if op == "BiasGelu" or (op == "FastGelu" and chance(rng)) else [x]
    attrs = some(rng, alpha=1.5) if op == "QuickGelu" else {}
    return Case(op, inputs, attrs, domain=MS, tolerance=1e-4)


@case
def ms_skip_norm(rng: Rng) -> Case:
    simple = chance(rng)
    x = numbers(rng, shape(rng, 3, 3, empty=0))
    size = x.shape[-1]
    inputs: list[Any] = [x, numbers(rng, list(x.shape)), numbers(rng, [size])]
    if not simple:
        inputs.append(numbers(rng, [size]) if chance(rng, 0.7) else None)
    inputs.append(numbers(rng, [size]) if chance(rng) else None)
    while inputs[-1] is None:
        inputs.pop()
    op = "SkipSimplifiedLayerNormalization" if simple else "SkipLayerNormalization"
    outputs = choose(rng, [["y"], ["y", "", "", "sum"]])
    return Case(op, inputs, some(rng, epsilon=1e-3), outputs, MS, tolerance=1e-4)


@case
def simplified_norm(rng: Rng) -> Case:
    x = numbers(rng, shape(rng, 2, 4, empty=0))
    inputs = [x, numbers(rng, [x.shape[-1]])]
    return Case("SimplifiedLayerNormalization", inputs, some(rng, epsilon=1e-3), tolerance=1e-4)


@case
def ms_rotary(rng: Rng) -> Case:
    batch, heads, steps, half = (int(d) for d in rng.integers(1, 5, 4))
    flat = chance(rng)
    sizes = [batch, steps, heads * half * 2] if flat else [batch, heads, steps, half * 2]
    at = np.array([int(rng.integers(0, 5))]) if chance(rng) else rng.integers(0, 9, [batch, steps])
    tables = [numbers(rng, [16, half], low=-1, high=1) for _ in range(2)]
    inputs = [numbers(rng, sizes), at.astype(np.int64), *tables]
    return Case("RotaryEmbedding", inputs, some(rng, interleaved=1), domain=MS)


@case
def ms_group_query_attention(rng: Rng) -> Case:
    batch, kv_heads, steps = (int(d) for d in rng.integers(1, 4, 3))
    heads, size = kv_heads * int(rng.integers(1, 4)), 8 * int(rng.integers(1, 3))
    past = 0 if chance(rng, 0.3) else int(rng.integers(1, 5))
    if past:
        steps = 1 if chance(rng) else steps
    packed = chance(rng, 0.3)
    widths = [heads * size, kv_heads * size, kv_heads * size]
    rows = [numbers(rng, [batch, steps, w], low=-1, high=1) for w in widths]
    inputs: list[Any] = [np.concatenate(rows, -1), None, None] if packed else rows
    inputs += [numbers(rng, [batch, kv_heads, past, size], low=-1, high=1) for _ in range(2)]
    total = past + steps
    lengths = np.full(batch, total - 1, np.int32)
    inputs += [lengths, fixed(total, np.int32)]
    attrs: dict[str, Any] = {"num_heads": heads, "kv_num_heads": kv_heads}
    if chance(rng):
        attrs |= {"do_rotary": 1, **some(rng, rotary_interleaved=1)}
        inputs += [numbers(rng, [32, size // 2], low=-1, high=1) for _ in range(2)]
    attrs |= some(rng, scale=0.2, softcap=3.0, local_window_size=int(rng.integers(1, 5)))
    return Case("GroupQueryAttention", inputs, attrs, 3, MS, tolerance=1e-4)


@case
def ms_multi_head_attention(rng: Rng) -> Case:
    batch, heads, steps, keys = (int(d) for d in rng.integers(1, 5, 4))
    attrs = some(rng, scale=0.3, unidirectional=1)
    if "unidirectional" in attrs:
        keys = steps  # it is not defined for others
    size = 4 * int(rng.integers(1, 4))
    width = heads * size
    q = numbers(rng, [batch, steps, width], low=-1, high=1)
    k, v = (numbers(rng, [batch, keys, width], low=-1, high=1) for _ in range(2))
    inputs: list[Any] = [q, k, v, numbers(rng, [3 * width]) if chance(rng) else None]
    mask = None
    if chance(rng, 0.3):
        mask = rng.integers(0, 2, [batch, keys]).astype(np.int32)
        mask[:, 0] = 1
    inputs.append(mask)
    inputs.append(numbers(rng, [batch, heads, steps, keys]) if chance(rng, 0.3) else None)
    while inputs[-1] is None:
        inputs.pop()
    attrs["num_heads"] = heads
    return Case("MultiHeadAttention", inputs, attrs, domain=MS, tolerance=1e-4)


@case
def ms_attention(rng: Rng) -> Case:
    batch, heads, steps = (int(d) for d in rng.integers(1, 5, 3))
    size, width = 4 * int(rng.integers(1, 3)), int(rng.integers(2, 9))
    x = numbers(rng, [batch, steps, width], low=-1, high=1)
    w = Fixed(numbers(rng, [width, 3 * heads * size], low=-1, high=1))
    inputs: list[Any] = [x, w, Fixed(numbers(rng, [3 * heads * size]))]
    if chance(rng, 0.3):
        inputs.append(rng.integers(1, steps + 1, batch).astype(np.int32))
    attrs = {"num_heads": heads, **some(rng, unidirectional=1, scale=0.4)}
    return Case("Attention", inputs, attrs, domain=MS, tolerance=1e-4)


@case
def ms_matmul_n_bits(rng: Rng) -> Case:
    bits, block = choose(rng, [4, 4, 8, 2]), choose(rng, [16, 32, 64])
    n, k = int(rng.integers(1, 40)), int(rng.integers(1, 150))
    blocks = -(-k // block)
    a = numbers(rng, [*shape(rng, 1, 2, empty=0), k], low=-1, high=1)
    b = Fixed(rng.integers(0, 256, [n, blocks, block * bits // 8]).astype(np.uint8))
    scales = Fixed(numbers(rng, [n * blocks], low=0.01, high=0.1))
    inputs: list[Any] = [a, b, scales]
    if chance(rng):
        inputs.append(Fixed(rng.integers(0, 256, n * (-(-blocks * bits // 8))).astype(np.uint8)))
    attrs = {"K": k, "N": n, "bits": bits, "block_size": block}
    return Case("MatMulNBits", inputs, attrs, domain=MS, tolerance=2e-4)


@case
def ms_fused_matmul(rng: Rng) -> Case:
    batch, m, n, k = (int(d) for d in rng.integers(1, 9, 4))
    attrs = some(rng, transA=1, transB=1, alpha=0.5)
    a = numbers(rng, [batch, k, m] if "transA" in attrs else [batch, m, k])
    b = numbers(rng, [batch, n, k] if "transB" in attrs else [batch, k, n])
    return Case("FusedMatMul", [a, maybe_fixed(rng, b)], attrs, domain=MS)


@case
def ms_fused_gemm_or_conv(rng: Rng) -> Case:
    kind = choose(rng, ["Relu", "Tanh", "Sigmoid", "LeakyRelu"])
    if chance(rng):
        m, n, k = (int(d) for d in rng.integers(1, 9, 3))
        arrays = [numbers(rng, [m, k]), numbers(rng, [k, n]), numbers(rng, [n])]
        attrs: dict[str, Any] = {"activation": kind}
        if kind == "LeakyRelu":
            attrs["activation_alpha"] = 0.3
        return Case("FusedGemm", arrays, attrs, domain=MS)
    x, w = numbers(rng, [1, 3, 7, 6]), Fixed(numbers(rng, [4, 3, 3, 3]))
    attrs = {"activation": kind, "kernel_shape": [3, 3]}
    if kind == "LeakyRelu":
        attrs["activation_params"] = [0.3]
    return Case("FusedConv", [x, w, Fixed(numbers(rng, [4]))], attrs, domain=MS)


def quantised(rng: Rng, sizes: list[int], dtype: Any) -> list[Any]:
    """Bytes, their scale and zero point."""
    info = np.iinfo(dtype)
    x = numbers(rng, sizes, dtype, info.min, info.max)
    zero = numbers(rng, [], dtype, -50, 150)
    return [x, fixed(rng.uniform(0.01, 0.1)), Fixed(np.asarray(zero))]


def parameters(rng: Rng, dtype: Any) -> list[Any]:
    return quantised(rng, [], dtype)[1:]


@case
def ms_qlinear_binary(rng: Rng) -> Case:
    dtype = choose(rng, [np.uint8, np.int8])
    left, right = broadcast_pair(rng)
    inputs = [*quantised(rng, left, dtype), *quantised(rng, right, dtype), *parameters(rng, dtype)]
    return Case(choose(rng, ["QLinearAdd", "QLinearMul"]), inputs, {}, domain=MS, steps=1)


@case
def ms_qlinear_unary(rng: Rng) -> Case:
    dtype = choose(rng, [np.uint8, np.int8])
    op = choose(rng, ["QLinearSigmoid", "QLinearLeakyRelu"])
    inputs = [*quantised(rng, shape(rng), dtype), *parameters(rng, dtype)]
    return Case(op, inputs, {"alpha": 0.2} if op == "QLinearLeakyRelu" else {}, domain=MS, steps=1)


@case
def ms_qlinear_pool(rng: Rng) -> Case:
    dtype = choose(rng, [np.uint8, np.int8])
    x = quantised(rng, [1, 3, int(rng.integers(3, 9)), int(rng.integers(3, 9))], dtype)
    if chance(rng):
        inputs = [*x, *parameters(rng, dtype)]
        return Case("QLinearGlobalAveragePool", inputs, {"channels_last": 0}, domain=MS, steps=1)
    attrs = {
        "kernel_shape": [3, 2],
        **some(rng, strides=[2, 1], pads=[1, 0, 1, 1], count_include_pad=1),
    }
    return Case("QLinearAveragePool", [*x, *parameters(rng, dtype)], attrs, domain=MS, steps=1)


@case
def ms_qlinear_concat(rng: Rng) -> Case:
    dtype = choose(rng, [np.uint8, np.int8])
    sizes = shape(rng, 1, empty=0)
    inputs = parameters(rng, dtype)
    for _ in range(rng.integers(1, 4)):
        inputs += quantised(rng, sizes, dtype)
    return Case("QLinearConcat", inputs, {"axis": 0}, domain=MS, steps=1)


@case
def ms_qlinear_softmax(rng: Rng) -> Case:
    dtype = choose(rng, [np.uint8, np.int8])
    sizes = shape(rng, 2, empty=0)
    sizes[-1] += 1  # onnxruntime gives 0 for one element
    x = quantised(rng, sizes, dtype)
    inputs = [*x, fixed(1 / 255), Fixed(np.asarray(0 if dtype == np.uint8 else -128, dtype))]
    return Case("QLinearSoftmax", inputs, {"opset": 13, "axis": -1}, domain=MS, steps=1)


@case
def ms_dynamic_matmul(rng: Rng) -> Case:
    m, n, k = (int(d) for d in rng.integers(1, 20, 3))
    dtype = choose(rng, [np.uint8, np.int8])
    w, scale, zero = quantised(rng, [k, n], dtype)
    inputs: list[Any] = [numbers(rng, [m, k]), Fixed(w), scale, zero if chance(rng) else None]
    inputs.append(Fixed(numbers(rng, [n])) if chance(rng) else None)
    while inputs[-1] is None:
        inputs.pop()
    return Case("DynamicQuantizeMatMul", inputs, {}, domain=MS, tolerance=1e-2)


@case
def ms_matmul_to_float(rng: Rng) -> Case:
    m, n, k = (int(d) for d in rng.integers(1, 20, 3))
    a, a_scale, a_zero = quantised(rng, [m, k], choose(rng, [np.uint8, np.int8]))
    b, b_scale, b_zero = quantised(rng, [k, n], choose(rng, [np.uint8, np.int8]))
    inputs = [a, maybe_fixed(rng, b), a_scale, b_scale, a_zero, b_zero]
    if chance(rng):
        inputs.append(numbers(rng, [n]))
    return Case("MatMulIntegerToFloat", inputs, {}, domain=MS, tolerance=1e-4)


@case
def ms_qgemm(rng: Rng) -> Case:
    m, n, k = (int(d) for d in rng.integers(1, 20, 3))
    a = quantised(rng, [m, k], np.uint8)
    b, scale, zero = quantised(rng, [k, n], choose(rng, [np.uint8, np.int8]))
    bias = Fixed(numbers(rng, [n], np.int32, -500, 500)) if chance(rng) else None
    inputs: list[Any] = [*a, Fixed(b), scale, zero, bias]
    if chance(rng):
        inputs += [fixed(0.5), fixed(30, np.uint8)]
    while inputs[-1] is None:
        inputs.pop()
    return Case("QGemm", inputs, {"alpha": 1.0}, domain=MS, steps=1, tolerance=1e-4)


@case
def ml_scaler(rng: Rng) -> Case:
    x = numbers(rng, shape(rng, 2, 2, empty=0), choose(rng, [np.float32, np.float64, np.int64]))
    c = x.shape[-1] if chance(rng) else 1
    attrs = {"offset": [float(v) for v in rng.uniform(-1, 1, c)]}
    attrs["scale"] = [float(v) for v in rng.uniform(0.5, 2, c)]
    return Case("Scaler", [x], attrs, domain=ML)


@case
def ml_small(rng: Rng) -> Case:
    x = numbers(rng, shape(rng, 2, 2, empty=0))
    op = choose(rng, ["Normalizer", "Binarizer", "Imputer", "FeatureVectorizer"])
    if op == "Normalizer":
        return Case(op, [x], {"norm": choose(rng, ["MAX", "L1", "L2"])}, domain=ML)
    if op == "Binarizer":
        return Case(op, [x], {"threshold": 0.5}, domain=ML)
    if op == "Imputer":
        x.flat[0] = np.nan
        attrs = {
            "imputed_value_floats": [1.5] * choose(rng, [1, x.shape[1]]),
            "replaced_value_float": float("nan"),
        }
        return Case(op, [x], attrs, domain=ML)
    return Case(op, [x, x], {"inputdimensions": [x.shape[1]] * 2}, domain=ML)


@case
def ml_linear(rng: Rng) -> Case:
    features, targets = (int(d) for d in rng.integers(1, 6, 2))
    x = numbers(
        rng, [int(rng.integers(1, 6)), features], choose(rng, [np.float32, np.float64, np.int64])
    )
    kinds = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]
    attrs: dict[str, Any] = {"post_transform": choose(rng, kinds)}
    attrs["coefficients"] = [float(v) for v in rng.uniform(-1, 1, features * targets)]
    attrs["intercepts"] = [float(v) for v in rng.uniform(-1, 1, targets)]
    if chance(rng):
        if targets == 1:  # onnxruntime leaves the post transform out
            attrs["post_transform"] = "NONE"
        return Case("LinearRegressor", [x], {**attrs, "targets": targets}, domain=ML)
    if targets == 1:
        attrs["coefficients"] *= 2
        attrs["intercepts"] *= 2
        targets = 2
    attrs["classlabels_ints"] = [int(v) for v in rng.permutation(targets * 2)[:targets]]
    return Case("LinearClassifier", [x], attrs, 2, domain=ML)


TREE_FIELDS = [
    *("treeids", "nodeids", "featureids", "values", "modes"),
    *("truenodeids", "falsenodeids"),
]
LEAF_FIELDS = ["treeids", "nodeids", "ids", "weights"]


def tree(rng: Rng, number: int, features: int, classes: int, prefix: str) -> dict[str, list[Any]]:
    """One tree with leaves at random depths."""
    nodes: dict[str, list[Any]] = {}
    for field in TREE_FIELDS:
        nodes[f"nodes_{field}"] = []
    leaves: dict[str, list[Any]] = {f"{prefix}_{field}": [] for field in LEAF_FIELDS}
    modes = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]

    def grow(depth: int) -> int:
        at = len(nodes["nodes_nodeids"])
        is_leaf = depth == 0 or chance(rng, 0.2)
        row = [number, at, int(rng.integers(features)), float(rng.integers(-2, 3))]
        row += ["LEAF" if is_leaf else choose(rng, modes), 0, 0]
        for field, value in zip(TREE_FIELDS, row):
            nodes[f"nodes_{field}"].append(value)
        if is_leaf:
            for name, value in zip(
                leaves, [number, at, int(rng.integers(classes)), float(rng.uniform(-1, 1))]
            ):
                leaves[name].append(value)
        else:
            nodes["nodes_truenodeids"][at] = grow(depth - 1)
            nodes["nodes_falsenodeids"][at] = grow(depth - 1)
        return at

    grow(int(rng.integers(0, 5)))
    return nodes | leaves


@case
def ml_trees(rng: Rng) -> Case:
    features, classes = (int(d) for d in rng.integers(1, 5, 2))
    classifier = chance(rng)
    classes = max(classes, 2) if classifier else classes
    prefix = "class" if classifier else "target"
    attrs: dict[str, Any] = {}
    for number in range(int(rng.integers(1, 6))):
        for name, values in tree(rng, number, features, classes, prefix).items():
            attrs[name] = attrs.get(name, []) + values
    x = np.round(numbers(rng, [int(rng.integers(1, 8)), features]))
    if classifier:
        # onnxruntime leaves post transforms of regressors out for some targets.
        attrs["post_transform"] = choose(rng, ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
        few = classes > 2 and len(set(attrs["class_ids"])) == 1
        if few or attrs["post_transform"] == "SOFTMAX_ZERO":  # else see test_onnx_classical.py
            attrs["class_weights"] = [abs(weight) for weight in attrs["class_weights"]]
        attrs["classlabels_int64s"] = list(range(classes))
        return Case("TreeEnsembleClassifier", [x], attrs, 2, domain=ML)
    attrs |= {"n_targets": classes}
    if chance(rng):  # a last tree scores all targets: see test_onnx_classical.py for others
        attrs["base_values"] = [0.5] * classes
        last = max(attrs["nodes_treeids"]) + 1
        leaf = [last, 0, 0, 0.0, "LEAF", 0, 0]
        for field, value in zip(TREE_FIELDS, leaf):
            attrs[f"nodes_{field}"].append(value)
        for target in range(classes):
            for field, value in zip(LEAF_FIELDS, [last, 0, target, float(rng.uniform(-1, 1))]):
                attrs[f"target_{field}"].append(value)
    attrs |= some(rng, aggregate_function=choose(rng, ["SUM", "AVERAGE", "MIN", "MAX"]))
    return Case("TreeEnsembleRegressor", [x], attrs, domain=ML)


@case
def ml_encoders(rng: Rng) -> Case:
    x = rng.integers(0, 5, shape(rng, 1, 2, empty=0)).astype(np.int64)
    if chance(rng):
        return Case("OneHotEncoder", [x], {"cats_int64s": [0, 1, 2, 3, 4]}, domain=ML)
    attrs = {"keys_int64s": [0, 1, 2], "values_floats": [0.5, 1.5, 2.5], "default_float": -1.0}
    return Case("LabelEncoder", [x], attrs, domain=ML, opset=2)


@case
def ml_feature_extractor(rng: Rng) -> Case:
    x = numbers(rng, shape(rng, 1, 3, empty=0))
    at = rng.integers(0, x.shape[-1], [1, int(rng.integers(1, 4))]).astype(np.int64)
    return Case("ArrayFeatureExtractor", [x, at], domain=ML)
