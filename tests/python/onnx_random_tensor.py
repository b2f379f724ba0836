"""Random models of onnx_random.py: elementwise operators, reductions, shapes and indices."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from onnx_random import (
    FLOATS,
    INTS,
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

UNARY = [
    "Abs",
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "Ceil",
    "Cos",
    "Cosh",
    "Erf",
    "Exp",
    "Floor",
    "HardSwish",
    "Log",
    "Neg",
    "Reciprocal",
    "Relu",
    "Round",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Tan",
    "Tanh",
    "Mish",
    "IsNaN",
    "Identity",
]
UNARY_WITH: dict[str, list[str]] = {
    "Elu": ["alpha"],
    "LeakyRelu": ["alpha"],
    "Selu": ["alpha", "gamma"],
    "Celu": ["alpha"],
    "ThresholdedRelu": ["alpha"],
    "HardSigmoid": ["alpha", "beta"],
    "Shrink": ["lambd", "bias"],
}


@case
def unary(rng: Rng) -> Case:
    op = choose(rng, UNARY)
    x = numbers(rng, shape(rng), choose(rng, FLOATS), -4, 4)
    if chance(rng, 0.3) and x.size:
        x.flat[0] = choose(rng, [np.nan, np.inf, -np.inf, -0.0])
    return Case(op, [x], opset=18 if op == "Mish" else None)


@case
def unary_integers(rng: Rng) -> Case:
    op = choose(rng, ["Abs", "Neg", "Sign", "Relu", "Identity", "BitwiseNot"])
    return Case(op, [numbers(rng, shape(rng), choose(rng, INTS), -200, 200)], opset=18)


@case
def activation(rng: Rng) -> Case:
    op = choose(rng, list(UNARY_WITH))
    attrs = some(rng, **{name: float(rng.uniform(0, 2)) for name in UNARY_WITH[op]})
    return Case(op, [numbers(rng, shape(rng), np.float32)], attrs)


@case
def binary(rng: Rng) -> Case:
    op = choose(rng, ["Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Mod", "PRelu"])
    dtype = choose(rng, FLOATS + INTS)
    left, right = broadcast_pair(rng)
    integer = np.issubdtype(dtype, np.integer)
    a = numbers(rng, left, dtype, -20, 20)
    b = numbers(rng, right, dtype, 1, 3 if op == "Pow" else 9)
    if op in ("Div", "Mod") and chance(rng) and dtype not in (np.uint8, np.uint16):
        b = -b if not integer or np.iinfo(dtype).min < 0 else b
    if op == "Pow" and not integer:
        a = np.abs(a)
    attrs = {"fmod": 1} if op == "Mod" and (not integer or chance(rng)) else {}
    return Case(op, [maybe_fixed(rng, a, 0.2), maybe_fixed(rng, b, 0.3)], attrs)


@case
def power_of_mixed_types(rng: Rng) -> Case:
    a = numbers(rng, shape(rng), choose(rng, [np.float32, np.float64, np.int32, np.int64]), 1, 5)
    b = numbers(rng, [], choose(rng, [np.float32, np.float64, np.int32, np.int64]), 0, 3)
    return Case("Pow", [a, maybe_fixed(rng, b)])


@case
def comparison(rng: Rng) -> Case:
    op = choose(rng, ["Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"])
    dtype = choose(rng, [*FLOATS, *INTS, *([np.bool_] if op == "Equal" else [])])
    left, right = broadcast_pair(rng)
    return Case(op, [numbers(rng, left, dtype), numbers(rng, right, dtype)])


@case
def logical(rng: Rng) -> Case:
    left, right = broadcast_pair(rng)
    op = choose(rng, ["And", "Or", "Xor"])
    return Case(op, [numbers(rng, left, np.bool_), numbers(rng, right, np.bool_)])


@case
def bitwise(rng: Rng) -> Case:
    left, right = broadcast_pair(rng)
    op = choose(rng, ["BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift"])
    dtype = choose(rng, INTS if op != "BitShift" else INTS[4:])
    high = 100 if op != "BitShift" else np.iinfo(dtype).bits - 1
    a, b = numbers(rng, left, dtype, -100, 100), numbers(rng, right, dtype, -100, high)
    attrs = {"direction": choose(rng, ["LEFT", "RIGHT"])} if op == "BitShift" else {}
    return Case(op, [a, np.abs(b) if op == "BitShift" else b], attrs, opset=18)


@case
def variadic(rng: Rng) -> Case:
    op = choose(rng, ["Sum", "Mean", "Max", "Min"])
    left, right = broadcast_pair(rng)
    dtype = choose(rng, FLOATS[:2])
    arrays = [numbers(rng, choose(rng, [left, right]), dtype) for _ in range(rng.integers(1, 5))]
    return Case(op, arrays)


@case
def where(rng: Rng) -> Case:
    left, right = broadcast_pair(rng)
    dtype = choose(rng, [*FLOATS, np.int32, np.int64, np.uint8])
    condition = numbers(rng, choose(rng, [left, right, [1]]), np.bool_)
    return Case("Where", [condition, numbers(rng, left, dtype), numbers(rng, right, dtype)])


@case
def clip(rng: Rng) -> Case:
    dtype = choose(rng, [*FLOATS, np.int8, np.int32, np.int64, np.uint8, np.uint64])
    bounds = [
        maybe_fixed(rng, np.array(choose(rng, [0, 1, 2, 3]), dtype)) if chance(rng, 0.7) else None
        for _ in range(2)
    ]
    while bounds and bounds[-1] is None:
        bounds.pop()
    return Case("Clip", [numbers(rng, shape(rng), dtype, -5, 5), *bounds])


@case
def cast(rng: Rng) -> Case:
    from_type = choose(rng, [*FLOATS, *INTS, np.bool_])
    to = choose(rng, [*FLOATS, *INTS, np.bool_])
    unsigned = np.issubdtype(to, np.unsignedinteger)
    x = numbers(rng, shape(rng), from_type, 0 if unsigned else -100, 100)
    return Case("Cast", [x], {"to": helper.np_dtype_to_tensor_dtype(np.dtype(to))})


@case
def is_inf(rng: Rng) -> Case:
    x = numbers(rng, shape(rng), np.float32)
    if x.size:
        x.flat[0] = choose(rng, [np.inf, -np.inf])
    return Case("IsInf", [x], some(rng, detect_negative=0, detect_positive=0))


@case
def reduction(rng: Rng) -> Case:
    kinds = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]
    op = "Reduce" + choose(rng, kinds)
    dtype = choose(rng, [np.float32, np.float64, np.int32, np.int64])
    x = numbers(rng, shape(rng, 0, 4, empty=0.03 if op == "ReduceSum" else 0), dtype, 1, 4)
    rank = x.ndim
    axes = (
        sorted({int(a) for a in rng.integers(0, rank, rng.integers(0, rank + 1))}) if rank else []
    )
    axes = [a - rank if chance(rng) else a for a in axes]
    attrs: dict[str, Any] = some(rng, keepdims=int(chance(rng)))
    inputs: list[Any] = [x]
    opset = int(rng.integers(8, 21))
    by_input = opset >= 18 or (op == "ReduceSum" and opset >= 13)
    if by_input:
        attrs |= some(rng, noop_with_empty_axes=int(chance(rng)))
        if chance(rng, 0.8):
            inputs.append(maybe_fixed(rng, np.array(axes, np.int64), 0.7))
    elif axes:
        attrs["axes"] = axes
    return Case(op, inputs, attrs, opset=opset)


@case
def arg_reduction(rng: Rng) -> Case:
    dtype = choose(rng, [np.float32, np.float64, np.int32, np.uint8])
    x = numbers(rng, shape(rng, 1, empty=0), dtype, 0, 4)
    attrs = some(
        rng,
        axis=axis_of(rng, x.ndim),
        keepdims=int(chance(rng)),
        select_last_index=int(chance(rng)),
    )
    return Case(choose(rng, ["ArgMax", "ArgMin"]), [x], attrs)


@case
def top_k(rng: Rng) -> Case:
    x = numbers(rng, shape(rng, 1, 4, empty=0), choose(rng, [np.float32, np.float64, np.int64]))
    axis = axis_of(rng, x.ndim)
    k = np.array([rng.integers(0, x.shape[axis] + 1)], np.int64)
    attrs = {"axis": axis, **some(rng, largest=int(chance(rng)))}
    return Case("TopK", [x, maybe_fixed(rng, k, 0.8)], attrs, 2)


@case
def cum_sum(rng: Rng) -> Case:
    x = numbers(rng, shape(rng, 1), choose(rng, [np.float32, np.float64, np.int32, np.int64]))
    axis = np.array(axis_of(rng, x.ndim), choose(rng, [np.int32, np.int64]))
    return Case("CumSum", [x, maybe_fixed(rng, axis, 0.8)], some(rng, exclusive=1, reverse=1))


@case
def reshape(rng: Rng) -> Case:
    x = numbers(rng, shape(rng), np.float32)
    to: list[int] = []
    rest = x.size
    while rest > 1 and chance(rng, 0.8):
        factor = choose(rng, [d for d in range(1, rest + 1) if rest % d == 0])
        to.append(factor)
        rest //= factor
    to.append(rest)
    if chance(rng) and x.size:
        to[int(rng.integers(len(to)))] = -1
    for k in range(min(len(to), x.ndim)):
        if to[k] == x.shape[k] and chance(rng, 0.3):
            to[k] = 0
    attrs = {"allowzero": 1} if 0 in x.shape and -1 not in to else {}
    return Case("Reshape", [x, maybe_fixed(rng, np.array(to, np.int64), 0.7)], attrs, opset=14)


@case
def transpose(rng: Rng) -> Case:
    x = numbers(rng, shape(rng, 1), choose(rng, [np.float32, np.int64, np.bool_, np.float16]))
    return Case("Transpose", [x], some(rng, perm=[int(k) for k in rng.permutation(x.ndim)]))


@case
def squeeze(rng: Rng) -> Case:
    sizes = shape(rng)
    for _ in range(rng.integers(1, 3)):
        sizes.insert(int(rng.integers(len(sizes) + 1)), 1)
    x = numbers(rng, sizes)
    ones = [k for k, d in enumerate(sizes) if d == 1]
    axes = [k - len(sizes) if chance(rng) else k for k in ones[: rng.integers(1, len(ones) + 1)]]
    return Case("Squeeze", [x, Fixed(np.array(axes, np.int64))] if chance(rng, 0.8) else [x])


@case
def unsqueeze(rng: Rng) -> Case:
    x = numbers(rng, shape(rng))
    count = int(rng.integers(1, 3))
    axes = rng.permutation(x.ndim + count)[:count]
    axes = np.array([a - x.ndim - count if chance(rng) else a for a in axes], np.int64)
    return Case("Unsqueeze", [x, maybe_fixed(rng, axes, 0.8)])


@case
def flatten(rng: Rng) -> Case:
    x = numbers(rng, shape(rng))
    return Case("Flatten", [x], some(rng, axis=int(rng.integers(-x.ndim, x.ndim + 1))))


@case
def expand(rng: Rng) -> Case:
    left, right = broadcast_pair(rng)
    return Case("Expand", [numbers(rng, left), maybe_fixed(rng, np.array(right, np.int64), 0.7)])


@case
def tile(rng: Rng) -> Case:
    x = numbers(rng, shape(rng), choose(rng, [np.float32, np.int64]))
    return Case("Tile", [x, maybe_fixed(rng, rng.integers(0, 4, x.ndim).astype(np.int64), 0.7)])


@case
def concat(rng: Rng) -> Case:
    sizes = shape(rng, 1)
    axis = axis_of(rng, len(sizes))
    dtype = choose(rng, [np.float32, np.int64, np.float16, np.bool_])
    parts = []
    for _ in range(rng.integers(1, 5)):
        sizes[axis] = int(rng.integers(0, 5))
        parts.append(numbers(rng, sizes, dtype))
    return Case("Concat", parts, {"axis": axis})


@case
def split(rng: Rng) -> Case:
    x = numbers(rng, shape(rng, 1, empty=0))
    axis = axis_of(rng, x.ndim)
    count = int(rng.integers(1, x.shape[axis] + 1))
    if chance(rng):
        return Case("Split", [x], {"axis": axis, "num_outputs": count}, count, opset=18)
    cuts = np.sort(rng.integers(0, x.shape[axis] + 1, count - 1))
    sizes = np.diff([0, *cuts, x.shape[axis]]).astype(np.int64)
    return Case("Split", [x, maybe_fixed(rng, sizes, 0.8)], {"axis": axis}, count)


@case
def slices(rng: Rng) -> Case:
    x = numbers(rng, shape(rng, 1), choose(rng, [np.float32, np.int64]))
    axes = rng.permutation(x.ndim)[: rng.integers(1, x.ndim + 1)]
    dtype = choose(rng, [np.int32, np.int64])
    starts, ends = rng.integers(-9, 10, (2, len(axes)))
    steps = np.array([choose(rng, [1, 1, 2, 3, -1, -2]) for _ in axes])
    if chance(rng, 0.2):
        ends[0] = np.iinfo(np.int32).max if steps[0] > 0 else np.iinfo(np.int32).min
    signed = [a - x.ndim if chance(rng) else a for a in axes]
    fixed = 1.0 if chance(rng, 0.6) else 0.0
    parts = [maybe_fixed(rng, np.array(v, dtype), fixed) for v in (starts, ends, signed, steps)]
    return Case("Slice", [x, *parts])


@case
def gather(rng: Rng) -> Case:
    x = numbers(rng, shape(rng, 1, empty=0), choose(rng, [np.float32, np.int64, np.bool_]))
    axis = axis_of(rng, x.ndim)
    size = x.shape[axis]
    at = rng.integers(-size, size, shape(rng, 0, 2)).astype(choose(rng, [np.int32, np.int64]))
    return Case(
        "Gather", [x, maybe_fixed(rng, at)], some(rng, axis=axis) if axis == 0 else {"axis": axis}
    )


@case
def gather_elements(rng: Rng) -> Case:
    x = numbers(rng, shape(rng, 1, empty=0))
    axis = axis_of(rng, x.ndim)
    sizes = [int(rng.integers(1, d + 1)) for d in x.shape]
    sizes[axis] = int(rng.integers(0, 6))
    at = rng.integers(-x.shape[axis], x.shape[axis], sizes).astype(
        choose(rng, [np.int32, np.int64])
    )
    return Case("GatherElements", [x, maybe_fixed(rng, at, 0.3)], {"axis": axis})


@case
def gather_nd(rng: Rng) -> Case:
    x = numbers(rng, shape(rng, 1, empty=0))
    batch = int(rng.integers(0, x.ndim))
    depth = int(rng.integers(1, x.ndim - batch + 1))
    lead = [*x.shape[:batch], *shape(rng, 0 if batch else 1, 2)]
    at = np.stack([rng.integers(-d, d, lead) for d in x.shape[batch : batch + depth]], -1)
    return Case("GatherND", [x, maybe_fixed(rng, at.astype(np.int64), 0.3)], {"batch_dims": batch})


@case
def scatter_elements(rng: Rng) -> Case:
    dtype = choose(rng, [np.float32, np.int64, np.float64])
    x = numbers(rng, shape(rng, 1, empty=0), dtype)
    axis = axis_of(rng, x.ndim)
    sizes = [int(rng.integers(1, d + 1)) for d in x.shape]
    reduction = choose(rng, ["none", "add", "mul", "max", "min"])
    if reduction == "none":  # each place once
        at = np.argsort(rng.random(sizes), axis)
    else:
        at = rng.integers(-x.shape[axis], x.shape[axis], sizes)
    attrs = {"axis": axis, "reduction": reduction}
    return Case(
        "ScatterElements", [x, at.astype(np.int64), numbers(rng, sizes, dtype)], attrs, opset=18
    )


@case
def scatter_nd(rng: Rng) -> Case:
    x = numbers(rng, shape(rng, 1, empty=0))
    depth = int(rng.integers(1, x.ndim + 1))
    reduction = choose(rng, ["none", "add", "mul", "max", "min"])
    places = np.array(list(np.ndindex(*x.shape[:depth])), np.int64)
    count = int(rng.integers(1, 6))
    at = places[
        rng.permutation(len(places))[:count]
        if reduction == "none"
        else rng.integers(0, len(places), count)
    ]
    updates = numbers(rng, [len(at), *x.shape[depth:]])
    return Case("ScatterND", [x, at, updates], {"reduction": reduction}, opset=18)


@case
def pad(rng: Rng) -> Case:
    x = numbers(
        rng, shape(rng, 1, empty=0), choose(rng, [np.float32, np.float64, np.int64, np.uint8]), 0, 9
    )
    mode = choose(rng, ["constant", "constant", "reflect", "edge", "wrap"])
    low, high = rng.integers(-1 if mode == "constant" else 0, 3, (2, x.ndim))
    for k, d in enumerate(x.shape):
        most = d - 1 if mode == "reflect" else d
        low[k], high[k] = min(low[k], most), min(high[k], most)
    pads = np.concatenate([low, high]).astype(np.int64)
    inputs: list[Any] = [x, maybe_fixed(rng, pads, 0.7)]
    if mode == "constant" and chance(rng):
        inputs.append(maybe_fixed(rng, np.array(3, x.dtype)))
    return Case("Pad", inputs, {"mode": mode}, opset=19 if mode == "wrap" else 13)


@case
def depth_space(rng: Rng) -> Case:
    b, block = int(rng.integers(1, 3)), int(rng.integers(1, 4))
    c, h, w = (int(d) for d in rng.integers(1, 5, 3))
    if chance(rng):
        return Case(
            "SpaceToDepth", [numbers(rng, [b, c, h * block, w * block])], {"blocksize": block}
        )
    attrs = {"blocksize": block, "mode": choose(rng, ["DCR", "CRD"])}
    return Case("DepthToSpace", [numbers(rng, [b, c * block * block, h, w])], attrs)


@case
def trilu(rng: Rng) -> Case:
    x = numbers(rng, shape(rng, 2), choose(rng, [np.float32, np.int64, np.float64]))
    k = maybe_fixed(rng, np.array(rng.integers(-6, 7), np.int64))
    return Case("Trilu", [x, k] if chance(rng, 0.7) else [x], some(rng, upper=0), opset=14)


@case
def eye_like(rng: Rng) -> Case:
    attrs = some(rng, k=int(rng.integers(-4, 5)), dtype=int(choose(rng, [1, 7, 11, 6])))
    return Case(
        "EyeLike", [numbers(rng, shape(rng, 2, 2), choose(rng, [np.float32, np.int64]))], attrs
    )


@case
def ranges(rng: Rng) -> Case:
    dtype = choose(rng, [np.float32, np.float64, np.int32, np.int64])
    step = choose(rng, [1, 2, 3, -1, -2])
    first, last = (0, int(rng.integers(-2, 12)))[:: 1 if step > 0 else -1]
    fixed = 1.0 if chance(rng) else 0.0
    return Case("Range", [maybe_fixed(rng, np.array(v, dtype), fixed) for v in (first, last, step)])


@case
def one_hot(rng: Rng) -> Case:
    depth = int(rng.integers(1, 6))
    at = rng.integers(-depth - 1, depth + 2, shape(rng, 0, 3)).astype(
        choose(rng, [np.int64, np.float32])
    )
    values = numbers(rng, [2], choose(rng, [np.float32, np.int64]))
    count = np.array(choose(rng, [depth, [depth]]), np.int64)
    return Case(
        "OneHot",
        [at, Fixed(count), values],
        some(rng, axis=int(rng.integers(-at.ndim - 1, at.ndim + 1))),
    )


@case
def compress(rng: Rng) -> Case:
    x = numbers(rng, shape(rng, 1))
    if chance(rng):
        axis = axis_of(rng, x.ndim)
        return Case(
            "Compress",
            [x, numbers(rng, [int(rng.integers(0, x.shape[axis] + 1))], np.bool_)],
            {"axis": axis},
        )
    return Case("Compress", [x, numbers(rng, [int(rng.integers(0, x.size + 1))], np.bool_)])


@case
def nonzero(rng: Rng) -> Case:
    return Case(
        "NonZero", [numbers(rng, shape(rng), choose(rng, [np.float32, np.int64, np.bool_]), -1, 1)]
    )


@case
def unique(rng: Rng) -> Case:
    x = numbers(rng, shape(rng, 1, 3, empty=0), choose(rng, [np.float32, np.int64]), 0, 3)
    x = np.round(x).astype(x.dtype)
    attrs = some(rng, axis=axis_of(rng, x.ndim), sorted=int(chance(rng)))
    return Case("Unique", [x], attrs, int(rng.integers(1, 5)))


@case
def reverse_sequence(rng: Rng) -> Case:
    x = numbers(rng, shape(rng, 2, 4, empty=0))
    time_axis = int(rng.integers(0, 2))
    lengths = rng.integers(1, x.shape[time_axis] + 1, x.shape[1 - time_axis]).astype(np.int64)
    return Case(
        "ReverseSequence", [x, lengths], {"time_axis": time_axis, "batch_axis": 1 - time_axis}
    )


@case
def shape_of(rng: Rng) -> Case:
    x = numbers(rng, shape(rng))
    return Case(
        "Shape",
        [x],
        some(rng, start=int(rng.integers(-5, 5)), end=int(rng.integers(-5, 5))),
        opset=15,
    )


@case
def constant_of_shape(rng: Rng) -> Case:
    value = helper.make_tensor("v", int(choose(rng, [1, 7, 9, 6])), [1], [1])
    return Case(
        "ConstantOfShape",
        [maybe_fixed(rng, np.array(shape(rng), np.int64))],
        some(rng, value=value),
    )


@case
def center_crop_pad(rng: Rng) -> Case:
    x = numbers(rng, shape(rng, 1))
    axes = [int(a) for a in rng.permutation(x.ndim)[: rng.integers(1, x.ndim + 1)]]
    sizes = np.array(rng.integers(1, 9, len(axes)), np.int64)
    return Case("CenterCropPad", [x, maybe_fixed(rng, sizes, 0.7)], {"axes": axes}, opset=18)


@case
def einsum(rng: Rng) -> Case:
    letters = "abcde"
    sizes = {c: int(rng.integers(1, 5)) for c in letters}
    terms = [
        "".join(rng.permutation(list(letters))[: rng.integers(1, 4)])
        for _ in range(rng.integers(1, 3))
    ]
    used = sorted(set("".join(terms)))
    result = "".join(rng.permutation(used)[: rng.integers(0, len(used) + 1)])
    arrays = [numbers(rng, [sizes[c] for c in term]) for term in terms]
    return Case("Einsum", arrays, {"equation": f"{','.join(terms)}->{result}"})


@case
def tensor_scatter(rng: Rng) -> Case:
    b, h, s, d = (int(v) for v in rng.integers(1, 5, 4))
    length = int(rng.integers(1, s + 1))
    at = rng.integers(0, s - length + 1, b).astype(np.int64)
    cache, update = numbers(rng, [b, h, s, d]), numbers(rng, [b, h, length, d])
    return Case(
        "TensorScatter",
        [cache, update, at],
        {"mode": choose(rng, ["linear", "circular"])},
        opset=24,
    )
