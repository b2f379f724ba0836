"""Quantised ONNX models: products of 8-bit integers, against onnxruntime."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import gex.onnx

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GEX = pathlib.Path(os.environ.get("GEX_BUILD_DIR", ROOT / "build")) / "bin" / "gex"
rng = np.random.default_rng(4)


def model_of(
    nodes: list[Any],
    inputs: dict[str, tuple[int, list[Any]]],
    outputs: dict[str, int],
    weights: dict[str, np.ndarray],
    domains: tuple[tuple[str, int], ...] = (),
) -> bytes:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
        [helper.make_tensor_value_info(n, t, None) for n, t in outputs.items()],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    imports = [helper.make_opsetid("", 18), *(helper.make_opsetid(*d) for d in domains)]
    made = helper.make_model(graph, opset_imports=imports, ir_version=10)
    return bytes(made.SerializeToString())


def both(model: bytes, inputs: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    options = onnxruntime.SessionOptions()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return gex.onnx.loads(model).run(inputs), session.run(None, inputs)


def integer_launches(model: bytes, folder: pathlib.Path) -> int:
    """Launches of the compiled program that are products of integers."""
    path = folder / "model.onnx"
    path.write_bytes(model)
    text = subprocess.run(
        [GEX, "dump", path, "--level=program"], capture_output=True, text=True, check=True
    ).stdout
    return len(re.findall(r'launch "integer_', text))


def off_by_at_most_one(ours: np.ndarray, theirs: np.ndarray) -> None:
    """A sum that lies between two numbers may be rounded either way."""
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    apart = np.abs(ours.astype(np.int64) - theirs.astype(np.int64))
    assert apart.max(initial=0) <= 1
    assert np.count_nonzero(apart) <= max(1, apart.size // 100)


def byte_array(dtype: Any, *shape: int) -> np.ndarray:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


def scalar(value: float, dtype: Any = np.float32) -> np.ndarray:
    return np.array(value, dtype)


@pytest.mark.parametrize("signed", [False, True])
def test_matmul_integer(signed: bool, tmp_path: pathlib.Path) -> None:
    dtype = np.int8 if signed else np.uint8
    weights = {"b": byte_array(np.int8, 70, 33), "za": scalar(7, dtype), "zb": scalar(0, np.int8)}
    elem = TensorProto.INT8 if signed else TensorProto.UINT8
    model = model_of(
        [helper.make_node("MatMulInteger", ["a", "b", "za", "zb"], ["y"])],
        {"a": (elem, ["n", 70])},
        {"y": TensorProto.INT32},
        weights,
    )
    a = byte_array(dtype, 51, 70)
    wide = (a.astype(np.int32) - 7) @ weights["b"].astype(np.int32)
    np.testing.assert_array_equal(gex.onnx.loads(model).run({"a": a})[0], wide)
    assert integer_launches(model, tmp_path) == 1


@pytest.mark.parametrize("zero", [0, 128, 3])
@pytest.mark.parametrize("per_column", [False, True])
def test_qlinear_matmul(zero: int, per_column: bool) -> None:
    columns = 24 if per_column else ()
    weights = {
        "sa": scalar(0.02),
        "za": scalar(120, np.uint8),
        "b": byte_array(np.uint8, 64, 24),
        "sb": rng.uniform(0.01, 0.02, columns).astype(np.float32),
        "zb": np.full(columns, zero, np.uint8),
        "sy": scalar(0.3),
        "zy": scalar(110, np.uint8),
    }
    names = ["a", "sa", "za", "b", "sb", "zb", "sy", "zy"]
    model = model_of(
        [helper.make_node("QLinearMatMul", names, ["y"])],
        {"a": (TensorProto.UINT8, ["n", 5, 64])},
        {"y": TensorProto.UINT8},
        weights,
    )
    (ours,), (theirs,) = both(model, {"a": byte_array(np.uint8, 3, 5, 64)})
    off_by_at_most_one(ours, theirs)


@pytest.mark.parametrize("group", [1, 4, 8])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_qlinear_conv(group: int, dtype: Any, tmp_path: pathlib.Path) -> None:
    weights = {
        "sx": scalar(0.02),
        "zx": scalar(17, dtype),
        "w": byte_array(np.int8, 24, 8 // group, 3, 3),
        "sw": rng.uniform(0.001, 0.002, 24).astype(np.float32),
        "zw": np.zeros(24, np.int8),
        "sy": scalar(0.05),
        "zy": scalar(3, dtype),
        "bias": rng.integers(-500, 500, 24, dtype=np.int32),
    }
    names = ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy", "bias"]
    elem = TensorProto.INT8 if dtype == np.int8 else TensorProto.UINT8
    attributes = {"pads": [1, 0, 1, 2], "strides": [2, 1], "group": group}
    model = model_of(
        [helper.make_node("QLinearConv", names, ["y"], **attributes)],
        {"x": (elem, [2, 8, 15, 13])},
        {"y": elem},
        weights,
    )
    (ours,), (theirs,) = both(model, {"x": byte_array(dtype, 2, 8, 15, 13)})
    off_by_at_most_one(ours, theirs)
    assert integer_launches(model, tmp_path) == 1


@pytest.mark.parametrize("group", [1, 8])
@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 2, 0, 1]])
@pytest.mark.parametrize("zero", [0, 113])
def test_dynamically_quantised_convolution(
    group: int, pads: list[int], zero: int, tmp_path: pathlib.Path
) -> None:
    """The zero point of the image is computed."""
    weights = {"w": byte_array(np.uint8, 16, 8 // group, 3, 3), "zw": scalar(zero, np.uint8)}
    names = ["q", "w", "z", "zw"]
    model = model_of(
        [
            helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
            helper.make_node("ConvInteger", names, ["y"], pads=pads, group=group),
        ],
        {"x": (TensorProto.FLOAT, ["n", 8, "h", "w_"])},
        {"y": TensorProto.INT32},
        weights,
    )
    inputs = {"x": rng.standard_normal((2, 8, 9, 11)).astype(np.float32)}
    (ours,), (theirs,) = both(model, inputs)
    np.testing.assert_array_equal(ours, theirs)
    # A zero point of the weights needs the sums of the windows.
    assert integer_launches(model, tmp_path) == (1 if zero == 0 else 2)


def test_conv_integer_1d() -> None:
    weights = {"w": byte_array(np.int8, 6, 4, 5), "zx": scalar(9, np.uint8)}
    model = model_of(
        [helper.make_node("ConvInteger", ["x", "w", "zx"], ["y"], pads=[2, 2], dilations=[1])],
        {"x": (TensorProto.UINT8, [2, 4, 31])},
        {"y": TensorProto.INT32},
        weights,
    )
    x = byte_array(np.uint8, 2, 4, 31)
    padded = np.pad(x.astype(np.int64) - 9, ((0, 0), (0, 0), (2, 2)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 5, axis=2)
    expected = np.einsum("nclk,ock->nol", windows, weights["w"].astype(np.int64))
    np.testing.assert_array_equal(gex.onnx.loads(model).run({"x": x})[0], expected)


def qdq(
    name: str, source: str, scale: float, zero: int, weights: dict[str, np.ndarray]
) -> list[Any]:
    """QuantizeLinear and DequantizeLinear behind a value."""
    weights |= {f"{name}_s": scalar(scale), f"{name}_z": scalar(zero, np.uint8)}
    return [
        helper.make_node("QuantizeLinear", [source, f"{name}_s", f"{name}_z"], [f"{name}_q"]),
        helper.make_node("DequantizeLinear", [f"{name}_q", f"{name}_s", f"{name}_z"], [name]),
    ]


def test_qdq_network(tmp_path: pathlib.Path) -> None:
    """A convolution, a Gemm with transposed weights and a MatMul, as quantisers write them."""
    weights = {
        "cw_q": byte_array(np.int8, 16, 3, 3, 3),
        "cw_s": rng.uniform(0.002, 0.004, 16).astype(np.float32),
        "cw_z": np.zeros(16, np.int8),
        "cb": rng.standard_normal(16).astype(np.float32),
        "gw_q": byte_array(np.int8, 10, 16),
        "gw_s": scalar(0.004),
        "gw_z": scalar(0, np.int8),
        "gb": rng.standard_normal(10).astype(np.float32),
        "mw_q": byte_array(np.uint8, 10, 7),
        "mw_s": rng.uniform(0.002, 0.004, 7).astype(np.float32),
        "mw_z": np.full(7, 128, np.uint8),
    }
    nodes = [
        *qdq("x", "image", 0.02, 128, weights),
        helper.make_node("DequantizeLinear", ["cw_q", "cw_s", "cw_z"], ["cw"], axis=0),
        helper.make_node("Conv", ["x", "cw", "cb"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        *qdq("r2", "r", 0.03, 0, weights),
        helper.make_node("GlobalAveragePool", ["r2"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        *qdq("f2", "f", 0.01, 5, weights),
        helper.make_node("DequantizeLinear", ["gw_q", "gw_s", "gw_z"], ["gw"]),
        helper.make_node("Gemm", ["f2", "gw", "gb"], ["h"], transB=1),
        *qdq("h2", "h", 0.03, 100, weights),
        helper.make_node("DequantizeLinear", ["mw_q", "mw_s", "mw_z"], ["mw"], axis=1),
        helper.make_node("MatMul", ["h2", "mw"], ["y"]),
    ]
    model = model_of(
        nodes,
        {"image": (TensorProto.FLOAT, ["n", 3, 12, 10])},
        {"y": TensorProto.FLOAT},
        weights,
    )
    (ours,), (theirs,) = both(
        model, {"image": rng.standard_normal((2, 3, 12, 10)).astype(np.float32)}
    )
    np.testing.assert_allclose(ours, theirs, atol=0.03 * 0.004 * 128 * 2)
    assert integer_launches(model, tmp_path) == 3


def test_qdq_inverted_residual(tmp_path: pathlib.Path) -> None:
    """A block of a mobile network; its depthwise convolution has steps of 2 and uneven pads."""
    weights: dict[str, np.ndarray] = {}
    nodes = [*qdq("x", "image", 0.02, 128, weights)]
    source = "x"
    shapes = {"widen": (36, 6, 1, 1), "deep": (36, 1, 3, 3), "narrow": (6, 36, 1, 1)}
    for name, shape in shapes.items():
        weights |= {
            f"{name}_q": byte_array(np.int8, *shape),
            f"{name}_s": rng.uniform(0.002, 0.004, shape[0]).astype(np.float32),
            f"{name}_z": np.zeros(shape[0], np.int8),
            f"{name}_b": rng.standard_normal(shape[0]).astype(np.float32),
        }
        names = [f"{name}_q", f"{name}_s", f"{name}_z"]
        nodes.append(helper.make_node("DequantizeLinear", names, [f"{name}_w"], axis=0))
        attributes = (
            {"group": 36, "pads": [0, 0, 1, 1], "strides": [2, 2]} if name == "deep" else {}
        )
        inputs = [source, f"{name}_w", f"{name}_b"]
        nodes.append(helper.make_node("Conv", inputs, [f"{name}_c"], **attributes))
        nodes.append(helper.make_node("Clip", [f"{name}_c", "zero", "six"], [f"{name}_r"]))
        nodes += qdq(f"{name}_y", f"{name}_r", 6 / 255, 0, weights)
        source = f"{name}_y"
    weights |= {"zero": scalar(0), "six": scalar(6)}
    image = (TensorProto.FLOAT, ["n", 6, 13, 18])
    model = model_of(nodes, {"image": image}, {source: TensorProto.FLOAT}, weights)
    inputs = {"image": rng.standard_normal((2, 6, 13, 18)).astype(np.float32)}
    (ours,), (theirs,) = both(model, inputs)
    # Numbers between two steps may be rounded either way, in each of the layers.
    np.testing.assert_allclose(ours, theirs, atol=3.1 * 6 / 255)
    assert np.count_nonzero(ours != theirs) <= ours.size // 50
    assert integer_launches(model, tmp_path) == 3


def test_dynamic_quantisation_of_zeros() -> None:
    """Zeros have no range: their scale is 1, not 0."""
    model = model_of(
        [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])],
        {"x": (TensorProto.FLOAT, ["n"])},
        {"q": TensorProto.UINT8, "s": TensorProto.FLOAT, "z": TensorProto.UINT8},
        {},
    )
    for x in (np.zeros(5, np.float32), rng.standard_normal(50).astype(np.float32)):
        for ours, theirs in zip(*both(model, {"x": x}), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_dynamically_quantised_matmul() -> None:
    weights = {"b": byte_array(np.int8, 40, 9), "zb": scalar(0, np.int8), "sb": scalar(0.01)}
    model = model_of(
        [
            helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
            helper.make_node("MatMulInteger", ["q", "b", "z", "zb"], ["i"]),
            helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["s", "sb"], ["t"]),
            helper.make_node("Mul", ["f", "t"], ["y"]),
        ],
        {"x": (TensorProto.FLOAT, ["n", 6, 40])},
        {"y": TensorProto.FLOAT},
        weights,
    )
    (ours,), (theirs,) = both(model, {"x": rng.standard_normal((4, 6, 40)).astype(np.float32)})
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zero_points", [False, True])
def test_matmul_nbits(bits: int, zero_points: bool) -> None:
    k, n, block = 96, 20, 32
    blocks, each = k // block, 8 // bits
    weights = {
        "b": byte_array(np.uint8, n, blocks, block // each),
        "s": rng.uniform(0.01, 0.02, n * blocks).astype(np.float32),
    }
    names = ["a", "b", "s"]
    if zero_points:
        weights["z"] = byte_array(np.uint8, n * -(-blocks // each))
        names.append("z")
    node = helper.make_node(
        "MatMulNBits", names, ["y"], domain="com.microsoft", K=k, N=n, bits=bits, block_size=block
    )
    model = model_of(
        [node],
        {"a": (TensorProto.FLOAT, ["m", k])},
        {"y": TensorProto.FLOAT},
        weights,
        (("com.microsoft", 1),),
    )
    (ours,), (theirs,) = both(model, {"a": rng.standard_normal((5, k)).astype(np.float32)})
    np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-3 if bits == 8 else 2e-2)
