"""gex.onnx against onnxruntime: models that the tests of the onnx package do not cover."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import gex
import gex.onnx

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GEX = pathlib.Path(os.environ.get("GEX_BUILD_DIR", ROOT / "build")) / "bin" / "gex"
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
rng = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def make_model(
    nodes: list[Any],
    inputs: dict[str, tuple[int, list[Any]]],
    outputs: dict[str, int],
    weights: dict[str, np.ndarray] | None = None,
    opset: int = 18,
    domains: tuple[tuple[str, int], ...] = (),
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
        [helper.make_tensor_value_info(n, t, None) for n, t in outputs.items()],
        [numpy_helper.from_array(a, n) for n, a in (weights or {}).items()],
    )
    imports = [helper.make_opsetid("", opset)]
    imports += [helper.make_opsetid(domain, version) for domain, version in domains]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def both(model: onnx.ModelProto, inputs: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    data = model.SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    return gex.onnx.loads(data).run(inputs), session.run(None, inputs)


def check(model: onnx.ModelProto, inputs: dict[str, Any], tolerance: float = 1e-4) -> None:
    ours, theirs = both(model, inputs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("time", [3, 40])
def test_recurrent(kind: str, direction: str, time: int) -> None:
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    d = 2 if direction == "bidirectional" else 1
    hidden, size, batch = 8, 5, 2
    weights = {
        "w": normal(d, gates * hidden, size) * 0.3,
        "r": normal(d, gates * hidden, hidden) * 0.3,
        "b": normal(d, 2 * gates * hidden) * 0.3,
        "lengths": np.array([time, time - 1], np.int32),
    }
    node = helper.make_node(
        kind, ["x", "w", "r", "b", "lengths"], ["y", "h"], hidden_size=hidden, direction=direction
    )
    model = make_model(
        [node], {"x": (FLOAT, ["time", batch, size])}, {"y": FLOAT, "h": FLOAT}, weights
    )
    check(model, {"x": normal(time, batch, size)})


def loop_model(collects: bool) -> onnx.ModelProto:
    """Doubles x until its sum is above a limit; perhaps keeps each step."""
    outputs = [
        helper.make_tensor_value_info("go", TensorProto.BOOL, []),
        helper.make_tensor_value_info("next", FLOAT, [3]),
    ]
    nodes = [
        helper.make_node("Add", ["state", "state"], ["next"]),
        helper.make_node("ReduceSum", ["next"], ["total"], keepdims=0),
        helper.make_node("Less", ["total", "limit"], ["go"]),
    ]
    if collects:
        outputs.append(helper.make_tensor_value_info("step", FLOAT, [3]))
        nodes.append(helper.make_node("Identity", ["next"], ["step"]))
    body = helper.make_graph(
        nodes,
        "body",
        [
            helper.make_tensor_value_info("i", INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", FLOAT, [3]),
        ],
        outputs,
    )
    results = {"y": FLOAT} | ({"steps": FLOAT} if collects else {})
    node = helper.make_node("Loop", ["turns", "", "x"], list(results), body=body)
    return make_model(
        [node],
        {"x": (FLOAT, [3]), "limit": (FLOAT, []), "turns": (INT64, [])},
        results,
    )


@pytest.mark.parametrize("collects", [False, True])
def test_loop_with_a_data_dependent_end(collects: bool) -> None:
    model = loop_model(collects)
    for limit in (0.5, 30.0, 1000.0):
        feeds = {
            "x": np.ones(3, np.float32),
            "limit": np.array(limit, np.float32),
            "turns": np.array(20),
        }
        ours, theirs = both(model, feeds)
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_loop_without_collected_values_is_one_program() -> None:
    model = gex.onnx.loads(loop_model(False).SerializeToString())
    for limit in (0.5, 30.0, 1000.0):
        model.run(
            {
                "x": np.ones(3, np.float32),
                "limit": np.array(limit, np.float32),
                "turns": np.array(20),
            }
        )
    assert model.statistics == {"imports": 1, "programs": 1, "probes": 0}


def test_a_short_loop_with_a_data_dependent_end_is_one_program() -> None:
    model = loop_model(False)
    model.graph.initializer.append(numpy_helper.from_array(np.array(4), "turns"))
    loaded = gex.onnx.loads(model.SerializeToString())
    for limit, factor in ((0.5, 2), (10.0, 4), (1000.0, 16)):
        feeds = {"x": np.ones(3, np.float32), "limit": np.array(limit, np.float32)}
        np.testing.assert_array_equal(loaded.run(feeds)[0], np.full(3, factor, np.float32))
    assert loaded.statistics == {"imports": 1, "programs": 1, "probes": 0}


@pytest.mark.parametrize("same_sizes", [True, False])
def test_if(same_sizes: bool) -> None:
    yes = helper.make_graph(
        [helper.make_node("Mul", ["x", "two"], ["a"])],
        "yes",
        [],
        [helper.make_tensor_value_info("a", FLOAT, None)],
    )
    op = "Neg" if same_sizes else "ReduceSum"
    no = helper.make_graph(
        [helper.make_node(op, ["x"], ["b"])],
        "no",
        [],
        [helper.make_tensor_value_info("b", FLOAT, None)],
    )
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        helper.make_node("Greater", ["total", "zero"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=yes, else_branch=no),
    ]
    weights = {"two": np.float32(2).reshape(()), "zero": np.float32(0).reshape(())}
    model = make_model(nodes, {"x": (FLOAT, [4])}, {"y": FLOAT}, weights)
    loaded = gex.onnx.loads(model.SerializeToString())
    for sign in (1, -1, 1):
        x = np.full(4, sign, np.float32)
        expected = x * 2 if sign > 0 else -x if same_sizes else x.sum(keepdims=True)
        np.testing.assert_array_equal(loaded.run({"x": x})[0], expected)
    assert loaded.statistics["programs"] == (1 if same_sizes else 2)


def test_if_in_if_whose_branches_differ_in_size() -> None:
    """A condition inside a branch must not take the value of the outer one."""

    def branch(name: str, nodes: list[Any]) -> onnx.GraphProto:
        info = helper.make_tensor_value_info(f"{name}_out", FLOAT, None)
        return helper.make_graph(nodes, name, [], [info])

    inner = [
        branch("a", [helper.make_node("Neg", ["x"], ["a_out"])]),
        branch("b", [helper.make_node("ReduceSum", ["x"], ["b_out"])]),
    ]
    outer = [
        branch(
            "c",
            [
                helper.make_node(
                    "If", ["inner"], ["c_out"], then_branch=inner[0], else_branch=inner[1]
                )
            ],
        ),
        branch("d", [helper.make_node("Concat", ["x", "x"], ["d_out"], axis=0)]),
    ]
    nodes = [
        helper.make_node("Greater", ["p", "zero"], ["outer"]),
        helper.make_node("Greater", ["q", "zero"], ["inner"]),
        helper.make_node("If", ["outer"], ["y"], then_branch=outer[0], else_branch=outer[1]),
    ]
    inputs = {"x": (FLOAT, [3]), "p": (FLOAT, []), "q": (FLOAT, [])}
    weights = {"zero": np.array(0, np.float32)}
    loaded = gex.onnx.loads(make_model(nodes, inputs, {"y": FLOAT}, weights).SerializeToString())
    x = normal(3)
    for p in (1, -1):
        for q in (1, -1):
            expected = np.concatenate([x, x]) if p < 0 else -x if q > 0 else x.sum(keepdims=True)
            feeds = {"x": x, "p": np.array(p, np.float32), "q": np.array(q, np.float32)}
            np.testing.assert_allclose(loaded.run(feeds)[0], expected, rtol=1e-6)


def test_sizes_from_the_shape_of_another_input_stay_symbolic() -> None:
    nodes = [
        helper.make_node("Shape", ["like"], ["s"]),
        helper.make_node("Expand", ["x", "s"], ["y"]),
        helper.make_node("Slice", ["y", "one", "far", "axis"], ["z"]),
    ]
    weights = {
        "one": np.array([1], np.int64),
        "far": np.array([np.iinfo(np.int64).max], np.int64),
        "axis": np.array([0], np.int64),
    }
    inputs = {"x": (FLOAT, [1, "n"]), "like": (FLOAT, ["m", "n"])}
    model = make_model(nodes, inputs, {"z": FLOAT}, weights)
    loaded = gex.onnx.loads(model.SerializeToString())
    for m, n in ((2, 3), (5, 4), (9, 2)):
        x = normal(1, n)
        (z,) = loaded.run({"x": x, "like": normal(m, n)})
        np.testing.assert_array_equal(z, np.broadcast_to(x, (m - 1, n)))
    assert loaded.statistics["programs"] == 1


def test_sizes_that_the_file_wrongly_declares_equal() -> None:
    """Exporters write "?" for all open sizes, or one symbol for two: the calls decide."""
    for symbol in ("?", "n"):
        node = helper.make_node("Neg", ["x"], ["y"])
        model = make_model([node], {"x": (FLOAT, [symbol, symbol])}, {"y": FLOAT})
        loaded = gex.onnx.loads(model.SerializeToString())
        for shape in ((2, 3), (4, 4), (2, 3), (5, 1)):
            x = normal(*shape)
            np.testing.assert_array_equal(loaded.run([x])[0], -x)
        assert loaded.statistics["programs"] == (1 if symbol == "?" else 3)


def test_sizes_computed_in_floats_stay_symbolic() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], start=0, end=1),
        helper.make_node("Squeeze", ["s"], ["n"]),
        helper.make_node("Cast", ["n"], ["f"], to=FLOAT),
        helper.make_node("Mul", ["f", "two"], ["twice"]),
        helper.make_node("Range", ["zero", "twice", "one"], ["y"]),
    ]
    weights = {"zero": 0, "one": 1, "two": 2}
    arrays = {name: np.array(value, np.float32) for name, value in weights.items()}
    model = make_model(nodes, {"x": (FLOAT, ["n"])}, {"y": FLOAT}, arrays)
    loaded = gex.onnx.loads(model.SerializeToString())
    for n in (1, 4, 9):
        np.testing.assert_array_equal(
            loaded.run([normal(n)])[0], np.arange(2 * n, dtype=np.float32)
        )
    assert loaded.statistics == {"imports": 1, "programs": 1, "probes": 0}


MICROSOFT = (("com.microsoft", 1),)


@pytest.mark.parametrize("op", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_skip_norm(op: str) -> None:
    names = ["x", "skip", "gamma"] + (["beta"] if op == "SkipLayerNormalization" else [])
    node = helper.make_node(op, names, ["y", "", "", "sum"], domain="com.microsoft", epsilon=1e-5)
    weights = {name: normal(16) for name in names[2:]}
    inputs = {"x": (FLOAT, ["b", 4, 16]), "skip": (FLOAT, ["b", 4, 16])}
    model = make_model([node], inputs, {"y": FLOAT, "sum": FLOAT}, weights, domains=MICROSOFT)
    check(model, {"x": normal(2, 4, 16), "skip": normal(2, 4, 16)})


@pytest.mark.parametrize("op", ["FastGelu", "BiasGelu", "QuickGelu"])
def test_gelu(op: str) -> None:
    names = ["x"] + ([] if op == "QuickGelu" else ["bias"])
    node = helper.make_node(op, names, ["y"], domain="com.microsoft")
    model = make_model(
        [node], {"x": (FLOAT, [3, 8])}, {"y": FLOAT}, {"bias": normal(8)}, domains=MICROSOFT
    )
    if op == "QuickGelu":
        model.graph.ClearField("initializer")
    check(model, {"x": normal(3, 8)})


@pytest.mark.parametrize("bits_zero", [False, True])
def test_matmul_of_four_bits(bits_zero: bool) -> None:
    k, n, block = 64, 24, 32
    weights = {
        "b": rng.integers(0, 256, (n, k // block, block // 2)).astype(np.uint8),
        "scales": np.abs(normal(n * k // block)) * 0.1,
    }
    names = ["x", "b", "scales"]
    if bits_zero:
        weights["zeros"] = rng.integers(0, 256, (n * ((k // block + 1) // 2))).astype(np.uint8)
        names.append("zeros")
    node = helper.make_node(
        "MatMulNBits", names, ["y"], domain="com.microsoft", K=k, N=n, bits=4, block_size=block
    )
    model = make_model([node], {"x": (FLOAT, ["m", k])}, {"y": FLOAT}, weights, domains=MICROSOFT)
    check(model, {"x": normal(5, k)}, tolerance=1e-3)


def test_group_query_attention_with_a_cache() -> None:
    heads, kv_heads, size, past, batch = 4, 2, 16, 6, 2
    node = helper.make_node(
        "GroupQueryAttention",
        ["q", "k", "v", "past_k", "past_v", "lengths", "total", "cos", "sin"],
        ["y", "new_k", "new_v"],
        domain="com.microsoft",
        num_heads=heads,
        kv_num_heads=kv_heads,
        do_rotary=1,
    )
    weights = {
        "lengths": np.full((batch, 1), past, np.int32).reshape(batch),
        "total": np.array([past + 1], np.int32),
        "cos": normal(32, size // 2),
        "sin": normal(32, size // 2),
    }
    cache = (FLOAT, [batch, kv_heads, past, size])
    inputs = {
        "q": (FLOAT, [batch, 1, heads * size]),
        "k": (FLOAT, [batch, 1, kv_heads * size]),
        "v": (FLOAT, [batch, 1, kv_heads * size]),
        "past_k": cache,
        "past_v": cache,
    }
    outputs = {"y": FLOAT, "new_k": FLOAT, "new_v": FLOAT}
    model = make_model([node], inputs, outputs, weights, domains=MICROSOFT)
    check(model, {name: normal(*shape) for name, (_, shape) in inputs.items()}, tolerance=1e-3)


@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_quantised_arithmetic(op: str) -> None:
    names = ["a", "as", "az", "b", "bs", "bz", "cs", "cz"]
    weights: dict[str, np.ndarray] = {"as": np.float32(0.02), "bs": np.float32(0.03)}
    weights |= {"cs": np.float32(0.05)} | {z: np.uint8(128) for z in ("az", "bz", "cz")}
    weights = {name: np.asarray(value) for name, value in weights.items()}
    node = helper.make_node(op, names, ["y"], domain="com.microsoft")
    u8 = (TensorProto.UINT8, [2, 9])
    model = make_model(
        [node], {"a": u8, "b": u8}, {"y": TensorProto.UINT8}, weights, domains=MICROSOFT
    )
    feeds = {name: rng.integers(0, 256, (2, 9)).astype(np.uint8) for name in "ab"}
    (ours,), (theirs,) = both(model, feeds)
    assert np.abs(ours.astype(int) - theirs.astype(int)).max() <= 1


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("QLinearSoftmax", {"axis": -1, "opset": 13}),
        ("QLinearSoftmax", {"axis": 1, "opset": 11}),
        ("QLinearSigmoid", {}),
    ],
)
def test_quantised_functions_of_one_tensor(op: str, attributes: dict[str, Any]) -> None:
    weights = {"xs": np.float32(0.04), "xz": np.uint8(120), "ys": np.float32(0.004)}
    weights = {n: np.asarray(v) for n, v in {**weights, "yz": np.uint8(3)}.items()}
    node = helper.make_node(
        op, ["x", "xs", "xz", "ys", "yz"], ["y"], domain="com.microsoft", **attributes
    )
    u8 = (TensorProto.UINT8, [2, 3, 9])
    model = make_model([node], {"x": u8}, {"y": TensorProto.UINT8}, weights, domains=MICROSOFT)
    (ours,), (theirs,) = both(model, {"x": rng.integers(0, 256, (2, 3, 9)).astype(np.uint8)})
    assert ours.shape == theirs.shape
    assert np.abs(ours.astype(int) - theirs.astype(int)).max() <= 1


def test_quantised_choice() -> None:
    names = ["c", "x", "xs", "xz", "y", "ys", "yz", "zs", "zz"]
    weights: dict[str, np.ndarray] = {"xs": np.float32(0.02), "ys": np.float32(0.03)}
    weights |= {"zs": np.float32(0.05), "xz": np.uint8(128), "yz": np.uint8(100)}
    weights = {n: np.asarray(v) for n, v in {**weights, "zz": np.uint8(110)}.items()}
    node = helper.make_node("QLinearWhere", names, ["z"], domain="com.microsoft")
    u8 = (TensorProto.UINT8, [4, 9])
    inputs = {"c": (TensorProto.BOOL, [4, 9]), "x": u8, "y": u8}
    model = make_model([node], inputs, {"z": TensorProto.UINT8}, weights, domains=MICROSOFT)
    feeds = {name: rng.integers(0, 256, (4, 9)).astype(np.uint8) for name in "xy"}
    feeds["c"] = rng.integers(0, 2, (4, 9)).astype(bool)
    (ours,), (theirs,) = both(model, feeds)
    assert np.abs(ours.astype(int) - theirs.astype(int)).max() <= 1


@pytest.mark.parametrize("per_channel", [False, True])
def test_lstm_with_quantised_weights(per_channel: bool) -> None:
    """Scales and zero points for each direction, or for each direction and column."""
    size, hidden, directions = 5, 4, 2
    columns = [directions, 4 * hidden] if per_channel else [directions]
    weights = {
        "w": rng.integers(0, 256, (directions, size, 4 * hidden)).astype(np.uint8),
        "r": rng.integers(0, 256, (directions, hidden, 4 * hidden)).astype(np.uint8),
        "b": rng.standard_normal((directions, 8 * hidden)).astype(np.float32),
    }
    for name in "wr":
        weights[f"{name}s"] = (rng.random(columns) * 0.01).astype(np.float32)
        weights[f"{name}z"] = np.full(columns, 128, np.uint8)
    names = ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"]
    node = helper.make_node(
        *("DynamicQuantizeLSTM", names, ["y"]),
        domain="com.microsoft",
        hidden_size=hidden,
        direction="bidirectional",
    )
    x = (TensorProto.FLOAT, ["t", "b", size])
    model = make_model([node], {"x": x}, {"y": TensorProto.FLOAT}, weights, domains=MICROSOFT)
    (ours,), (theirs,) = both(model, {"x": rng.standard_normal((3, 2, size)).astype(np.float32)})
    np.testing.assert_allclose(ours, theirs, atol=0.02)  # onnxruntime rounds the rows to 8 bits


ML = (("ai.onnx.ml", 3),)


def tree_attributes(leaf: str) -> dict[str, Any]:
    """Two trees over three features."""
    attributes: dict[str, Any] = {
        "nodes_treeids": [0, 0, 0, 1, 1, 1, 1, 1],
        "nodes_nodeids": [0, 1, 2, 0, 1, 2, 3, 4],
        "nodes_featureids": [0, 0, 0, 1, 0, 2, 0, 0],
        "nodes_values": [0.1, 0.0, 0.0, -0.3, 0.0, 0.4, 0.0, 0.0],
        "nodes_modes": [
            *("BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_LT", "LEAF"),
            *("BRANCH_GT", "LEAF", "LEAF"),
        ],
        "nodes_truenodeids": [1, 0, 0, 1, 0, 3, 0, 0],
        "nodes_falsenodeids": [2, 0, 0, 2, 0, 4, 0, 0],
        "nodes_missing_value_tracks_true": [0] * 8,
        f"{leaf}_treeids": [0, 0, 1, 1, 1],
        f"{leaf}_nodeids": [1, 2, 1, 3, 4],
    }
    return attributes


def test_tree_regressor() -> None:
    node = helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=1,
        target_ids=[0] * 5,
        target_weights=[0.5, 1.5, -2.0, 0.25, 4.0],
        base_values=[0.1],
        **tree_attributes("target"),
    )
    check(
        make_model([node], {"x": (FLOAT, ["n", 3])}, {"y": FLOAT}, domains=ML), {"x": normal(20, 3)}
    )


@pytest.mark.parametrize("post", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_tree_classifier(post: str) -> None:
    node = helper.make_node(
        "TreeEnsembleClassifier",
        ["x"],
        ["label", "scores"],
        domain="ai.onnx.ml",
        classlabels_int64s=[7, 8, 9],
        class_ids=[0, 1, 2, 1, 0],
        class_weights=[0.5, 1.5, 2.0, 0.25, 4.0],
        post_transform=post,
        **tree_attributes("class"),
    )
    outputs = {"label": INT64, "scores": FLOAT}
    model = make_model([node], {"x": (FLOAT, ["n", 3])}, outputs, domains=ML)
    check(model, {"x": normal(20, 3)})


def test_linear_classifier_and_scaler() -> None:
    nodes = [
        helper.make_node(
            "Scaler",
            ["x"],
            ["s"],
            domain="ai.onnx.ml",
            offset=[0.1, 0.2, 0.3],
            scale=[1.0, 2.0, 3.0],
        ),
        helper.make_node(
            "LinearClassifier",
            ["s"],
            ["label", "scores"],
            domain="ai.onnx.ml",
            classlabels_ints=[3, 4, 5],
            coefficients=[float(v) for v in normal(9)],
            intercepts=[0.1, 0.2, 0.3],
            post_transform="SOFTMAX",
        ),
    ]
    outputs = {"label": INT64, "scores": FLOAT}
    model = make_model(nodes, {"x": (FLOAT, ["n", 3])}, outputs, domains=ML)
    check(model, {"x": normal(10, 3)})


def test_functions_of_the_model() -> None:
    function = helper.make_function(
        "mine",
        "Scaled",
        ["a"],
        ["b"],
        [
            helper.make_node("Constant", [], ["f"]),
            helper.make_node("Mul", ["a", "f"], ["b"]),
        ],
        [helper.make_opsetid("", 18)],
        attributes=["factor"],
    )
    function.node[0].attribute.append(
        onnx.AttributeProto(
            name="value_float", ref_attr_name="factor", type=onnx.AttributeProto.FLOAT
        )
    )
    node = helper.make_node("Scaled", ["x"], ["y"], domain="mine", factor=3.0)
    model = make_model([node], {"x": (FLOAT, [4])}, {"y": FLOAT}, domains=(("mine", 1),))
    model.functions.append(function)
    check(model, {"x": normal(4)})


def test_random_numbers_differ_from_run_to_run_unless_seeded() -> None:
    for seeded in (False, True):
        attributes = {"seed": 3.0} if seeded else {}
        nodes = [
            helper.make_node("RandomNormalLike", ["x"], ["a"], **attributes),
            helper.make_node("RandomNormalLike", ["x"], ["b"], **({"seed": 4.0} if seeded else {})),
        ]
        model = make_model(nodes, {"x": (FLOAT, [1000])}, {"a": FLOAT, "b": FLOAT})
        loaded = gex.onnx.loads(model.SerializeToString())
        x = np.zeros(1000, np.float32)
        (a, b), (c, d) = loaded.run({"x": x}), loaded.run({"x": x})
        assert not np.array_equal(a, b)
        assert np.array_equal(a, c) == seeded and np.array_equal(b, d) == seeded
        assert abs(a.mean()) < 0.2 and abs(a.std() - 1) < 0.2


def test_strings_as_inputs_and_outputs() -> None:
    nodes = [helper.make_node("StringConcat", ["x", "y"], ["z"])]
    string = TensorProto.STRING
    model = make_model(nodes, {"x": (string, [2]), "y": (string, [1])}, {"z": string}, opset=20)
    loaded = gex.onnx.loads(model.SerializeToString())
    (z,) = loaded.run({"x": np.array(["a", "bü"], object), "y": np.array(["!"], object)})
    assert z.tolist() == ["a!", "bü!"]


def test_a_table_of_positions_bounds_the_length(tmp_path: pathlib.Path) -> None:
    """A slice of 16 positions is added to rows of any length: the length is at most 16, one program
    serves all, and a model file needs no --shape. Sizes of one name are equal in all inputs."""
    table = np.random.default_rng(0).standard_normal((16, 4)).astype(np.float32)
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"], start=1, end=2),
        helper.make_node("Slice", ["table", "zero", "sizes", "zero"], ["positions"]),
        helper.make_node("Add", ["x", "positions"], ["s"]),
        helper.make_node("Mul", ["s", "m"], ["y"]),
    ]
    shapes = {"x": ["b", "n", 4], "m": ["b", "n", 1]}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["b", "n", 4])],
        [numpy_helper.from_array(table, "table"), numpy_helper.from_array(np.array([0]), "zero")],
    )
    path = tmp_path / "m.onnx"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path
    )
    model = gex.onnx.load(path)
    for b, n in ((1, 1), (2, 5), (3, 16)):
        x, m = np.ones((b, n, 4), np.float32), np.full((b, n, 1), 2, np.float32)
        np.testing.assert_allclose(model.run([x, m])[0], (x + table[:n]) * 2, rtol=1e-6)
    assert model.statistics["programs"] == 1
    with pytest.raises(gex.Error):
        model.run([np.ones((1, 17, 4), np.float32), np.ones((1, 17, 1), np.float32)])
    command = pathlib.Path(gex.__file__).parents[2] / "bin" / "gex"
    for words in ([], ["--shape", "x=1..8,n,4"], ["--shape", "x=1..8,1..16,4"]):
        file = tmp_path / "m.gexe"
        done = subprocess.run(
            [command, "compile", path, "-o", file, *words],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        session = gex.load(file, trust=True)
        x, m = np.ones((2, 7, 4), np.float32), np.full((2, 7, 1), 2, np.float32)
        np.testing.assert_allclose(session(x, m), (x + table[:7]) * 2, rtol=1e-6)


def test_wrong_use_is_reported() -> None:
    model = make_model([helper.make_node("Neg", ["x"], ["y"])], {"x": (FLOAT, [2])}, {"y": FLOAT})
    loaded = gex.onnx.loads(model.SerializeToString())
    with pytest.raises(ValueError, match="unknown inputs: \\['z'\\]"):
        loaded.run({"z": normal(2)})
    with pytest.raises(gex.UserError, match="axis 0 of input 'x' has 2 elements, got 3"):
        loaded.run({"x": normal(3)})
    with pytest.raises(gex.UserError, match="is a tensor of float, got double"):
        loaded.run({"x": np.zeros(2)})
    with pytest.raises(gex.UserError, match="not an ONNX model"):
        gex.onnx.loads(b"nonsense")


def test_backend_runs_a_node() -> None:
    from gex import onnx_backend

    node = helper.make_node("Add", ["a", "b"], ["c"])
    (c,) = onnx_backend.run_node(node, [np.ones(3, np.float32), np.full(3, 2, np.float32)])
    np.testing.assert_array_equal(c, np.full(3, 3, np.float32))
    assert onnx_backend.supports_device("CPU") and not onnx_backend.supports_device("CUDA")


def test_without_pytorch(tmp_path: pathlib.Path) -> None:
    model = make_model([helper.make_node("Neg", ["x"], ["y"])], {"x": (FLOAT, [2])}, {"y": FLOAT})
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "import numpy as np, gex.onnx\n"
        f"print(gex.onnx.load({str(path)!r}).run([np.ones(2, np.float32)])[0].tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "[-1.0, -1.0]", done.stderr


@pytest.mark.parametrize("command", ["run", "opt", "dump", "bench", "explain"])
def test_commands_take_onnx_files(command: str, tmp_path: pathlib.Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("MatMul", ["a", "w"], ["y"])]
    model = make_model(nodes, {"x": (FLOAT, ["n", 4])}, {"y": FLOAT}, {"w": normal(4, 2)})
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    tool = pathlib.Path(gex.__file__).parent / "bin" / "gex"
    line = [str(tool), command, str(path)]
    if command in ("run", "bench"):
        line += ["--dim", "s0=3"]
    if command == "bench":
        line += ["--calls", "3"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("command", ["opt", "dump"])
def test_a_graph_goes_back_to_onnx(command: str, tmp_path: pathlib.Path) -> None:
    """What gex writes, the checker of the onnx package takes and onnxruntime runs."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "m", "b"], ["g"], alpha=0.5),
        helper.make_node("Softmax", ["g"], ["s"]),
        helper.make_node("Slice", ["s", "one", "three", "one"], ["y"]),
    ]
    weights = {"w": normal(8, 3, 3, 3), "m": normal(8, 5), "b": normal(5)}
    weights |= {"one": np.array([1]), "three": np.array([3])}
    model = make_model(nodes, {"x": (FLOAT, [2, 3, 6, 6])}, {"y": FLOAT}, weights)
    source, target = tmp_path / "model.onnx", tmp_path / "back.onnx"
    source.write_bytes(model.SerializeToString())
    tool = pathlib.Path(gex.__file__).parent / "bin" / "gex"
    line = [str(tool), command, str(source), "--onnx", str(target)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # no op that only gex knows
    back = onnx.load(target)
    onnx.checker.check_model(back)
    feeds = {"x": normal(2, 3, 6, 6)}
    session = onnxruntime.InferenceSession(str(target), providers=["CPUExecutionProvider"])
    reference = onnxruntime.InferenceSession(str(source), providers=["CPUExecutionProvider"])
    expected = reference.run(None, feeds)[0]
    np.testing.assert_allclose(session.run(None, feeds)[0], expected, rtol=1e-4, atol=1e-5)
    (again,) = gex.onnx.load(target).run(feeds)
    np.testing.assert_allclose(again, expected, rtol=1e-4, atol=1e-5)


def test_ops_that_onnx_lacks_are_named(tmp_path: pathlib.Path) -> None:
    model = make_model(
        [helper.make_node("TopK", ["x", "k"], ["v", "i"])],
        {"x": (FLOAT, [4, 9])},
        {"v": FLOAT, "i": INT64},
        {"k": np.array([2])},
    )
    source, target = tmp_path / "model.onnx", tmp_path / "graph.onnx"
    source.write_bytes(model.SerializeToString())
    tool = pathlib.Path(gex.__file__).parent / "bin" / "gex"
    line = [str(tool), "opt", str(source), "--onnx", str(target)]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert "not part of ONNX: topk" in done.stderr
    onnx.checker.check_model(onnx.load(target))
    with pytest.raises(gex.UserError, match=r"gex\.topk"):
        gex.onnx.load(target).run([normal(4, 9)])


def test_a_product_whose_result_meets_many_tensors() -> None:
    """More than an epilogue may read: 70 inputs of one Concat, added to a product."""
    parts = [f"p{k}" for k in range(70)]
    nodes = [
        helper.make_node("MatMul", ["a", "b"], ["m"]),
        helper.make_node("Concat", parts, ["c"], axis=0),
        helper.make_node("Add", ["m", "c"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
            for n, s in [("a", [70, 6]), ("b", [6, 8]), *((p, [1, 8]) for p in parts)]
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [70, 8])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(s).astype(np.float32) for s in ((70, 6), (6, 8), (70, 8)))
    inputs = [a, b, *(c[k : k + 1] for k in range(70))]
    (y,) = gex.onnx.loads(model.SerializeToString()).run(inputs)
    np.testing.assert_allclose(y, a @ b + c, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float64", "float16", "int64", "int8"])
def test_the_command_refuses_arrays_of_another_type(tmp_path: pathlib.Path, dtype: str) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    onnx.save(make_model([node], {"x": (FLOAT, ["n"])}, {"y": FLOAT}), tmp_path / "relu.onnx")
    np.save(tmp_path / "x.npy", np.ones(4, dtype))
    words = [GEX, "run", tmp_path / "relu.onnx", "--input", f"x={tmp_path}/x.npy"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "input x takes f32, but" in done.stderr and "convert it" in done.stderr


@pytest.mark.parametrize("contents", [b"", b"\x00\x01", b"\x0a\x7f"])
def test_a_damaged_file_is_named(tmp_path: pathlib.Path, contents: bytes) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(contents)
    with pytest.raises(gex.UserError, match=r"broken\.onnx: not an ONNX model"):
        gex.onnx.load(str(path))


@pytest.mark.parametrize("known", ["size", "axis", "mask", "nothing"])
def test_a_range_as_the_places_of_ones(known: str) -> None:
    """As exporters write arange before opset 11; its size must be equal to that of x."""
    weights = {"n": np.array([5]), "mask": np.array([1, 1, 0, 1, 1, 0, 1]), "last": np.array([1])}
    node = helper.make_node
    ones = helper.make_tensor("value", INT64, [1], [int(known != "nothing")])
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "last"], ["columns"]),
        node("ConstantOfShape", ["n" if known == "size" else "columns"], ["ones"], value=ones),
        node("NonZero", ["mask" if known == "mask" else "ones"], ["places"]),
        node("Squeeze", ["places"], ["row"], axes=[0]),
        node("Cast", ["row"], ["steps"], to=FLOAT),
        node("Add", ["x", "steps"], ["y"]),
    ]
    columns = "columns" if known == "axis" else 1 if known == "nothing" else 5
    model = make_model(nodes, {"x": (FLOAT, ["rows", columns])}, {"y": FLOAT}, weights, opset=9)
    check(model, {"x": normal(3, 1 if known == "nothing" else 5)})
    if known == "axis":
        check(model, {"x": normal(2, 7)})


def test_compress_by_a_known_condition() -> None:
    nodes = [
        helper.make_node("Compress", ["x", "kept"], ["part"], axis=1),
        helper.make_node("Add", ["part", "w"], ["y"]),
    ]
    weights = {"kept": np.array([True, False, True]), "w": normal(2)}
    check(make_model(nodes, {"x": (FLOAT, ["n", 3])}, {"y": FLOAT}, weights), {"x": normal(4, 3)})
