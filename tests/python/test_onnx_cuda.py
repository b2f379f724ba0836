"""ONNX models compiled for CUDA, over a driver library that computes on the host."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fake_gpu
import gex.onnx

_PRELUDE = """
import sys
sys.path.insert(0, {tests!r})
import fake_gpu, numpy as np, onnx, gex.onnx
from onnx import TensorProto as T, helper as h
from gex.onnx_backend import GexBackend
fake_gpu.install()
"""


def run(folder: Path, code: str) -> None:
    environment = fake_gpu.environment(folder) | {"GEX_CACHE_DIR": ""}
    prelude = _PRELUDE.format(tests=str(Path(__file__).parent))
    command = [sys.executable, "-c", prelude + code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr[-4000:]


def test_weights_open_sizes_and_a_shape_that_depends_on_a_value(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
rng = np.random.default_rng(0)
w = rng.standard_normal((48, 32), dtype=np.float32)
graph = h.make_graph(
    [
        h.make_node("MatMul", ["x", "w"], ["p"]),
        h.make_node("Relu", ["p"], ["r"]),
        h.make_node("Softmax", ["r"], ["s"], axis=-1),
        h.make_node("Reshape", ["s", "shape"], ["y"]),
    ],
    "g",
    [h.make_tensor_value_info("x", T.FLOAT, ["n", 48]),
     h.make_tensor_value_info("shape", T.INT64, [2])],
    [h.make_tensor_value_info("y", T.FLOAT, None)],
    [onnx.numpy_helper.from_array(w, "w")],
)
data = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)]).SerializeToString()
on_gpu, on_cpu = gex.onnx.loads(data, target="cuda:0"), gex.onnx.loads(data)
for n in (4, 6, 32):
    x = rng.standard_normal((n, 48), dtype=np.float32)
    shape = np.array([n * 2, 16])
    got, want = on_gpu.run([x, shape])[0], on_cpu.run([x, shape])[0]
    assert got.shape == (n * 2, 16)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
""",
    )


def test_backend_class_on_cuda(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
assert GexBackend.supports_device("CUDA:0") and not GexBackend.supports_device("CUDA:7")
node = h.make_node("Gelu", ["x"], ["y"])
x = np.linspace(-3, 3, 24, dtype=np.float32).reshape(4, 6)
want = GexBackend.run_node(node, [x], "CPU", opset_imports=[h.make_opsetid("", 20)])
got = GexBackend.run_node(node, [x], "CUDA", opset_imports=[h.make_opsetid("", 20)])
np.testing.assert_allclose(got[0], want[0], rtol=1e-5, atol=1e-6)
""",
    )


def test_a_target_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "empty.onnx"
    import onnx
    from onnx import TensorProto, helper

    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value], [result])
    onnx.save(helper.make_model(graph), path)
    with pytest.raises(Exception, match="target cuda:63 can't be used here"):
        gex.onnx.load(path, target="cuda:63")
    assert np.array_equal(gex.onnx.load(path).run([np.array([-1, 2], np.float32)])[0], [0, 2])
