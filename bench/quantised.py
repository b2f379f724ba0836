"""Quantised ONNX models beside onnxruntime: processor time of one thread, least of many runs.

GEX_THREADS=1 python bench/quantised.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import gex.onnx

rng = np.random.default_rng(0)


class Network:
    """Layers between QuantizeLinear and DequantizeLinear, as quantisers write them."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: dict[str, np.ndarray] = {}
        self.last = "x"

    def add(self, op: str, inputs: list[str], **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def weight(self, values: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = values
        return name

    def quantise(self) -> None:
        scale, zero = self.weight(np.array(0.02, np.float32)), self.weight(np.array(10, np.uint8))
        q = self.add("QuantizeLinear", [self.last, scale, zero])
        self.last = self.add("DequantizeLinear", [q, scale, zero])

    def layer(self, op: str, shape: tuple[int, ...], axis: int, **attributes: Any) -> None:
        self.quantise()
        q = self.weight(rng.integers(-128, 127, shape).astype(np.int8))
        scale = self.weight(np.full(shape[axis], 0.001, np.float32))
        zero = self.weight(np.zeros(shape[axis], np.int8))
        w = self.add("DequantizeLinear", [q, scale, zero], axis=axis)
        self.last = self.add(op, [self.last, w], **attributes)

    def model(self, shape: tuple[int, ...]) -> bytes:
        self.quantise()
        graph = helper.make_graph(
            self.nodes,
            "quantised",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info(self.last, TensorProto.FLOAT, None)],
            [numpy_helper.from_array(a, n) for n, a in self.weights.items()],
        )
        opsets = [helper.make_opsetid("", 18)]
        made = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        return bytes(made.SerializeToString())


def convolutions(channels: int, side: int) -> tuple[bytes, tuple[int, ...]]:
    network = Network()
    for _ in range(4):
        network.layer("Conv", (channels, channels, 3, 3), 0, pads=[1, 1, 1, 1])
    shape = (1, channels, side, side)
    return network.model(shape), shape


def inverted_residuals(channels: int, side: int) -> tuple[bytes, tuple[int, ...]]:
    """Four blocks of a mobile network: widen, a depthwise 3x3 convolution, narrow."""
    network = Network()
    wide = 6 * channels
    for _ in range(4):
        network.layer("Conv", (wide, channels, 1, 1), 0)
        network.layer("Conv", (wide, 1, 3, 3), 0, pads=[1, 1, 1, 1], group=wide)
        network.layer("Conv", (channels, wide, 1, 1), 0)
    shape = (1, channels, side, side)
    return network.model(shape), shape


def grouped_convolutions(channels: int, groups: int, side: int) -> tuple[bytes, tuple[int, ...]]:
    network = Network()
    for _ in range(4):
        weights = (channels, channels // groups, 3, 3)
        network.layer("Conv", weights, 0, pads=[1, 1, 1, 1], group=groups)
    shape = (1, channels, side, side)
    return network.model(shape), shape


def products(rows: int) -> tuple[bytes, tuple[int, ...]]:
    network = Network()
    network.layer("MatMul", (768, 3072), 1)
    network.layer("MatMul", (3072, 768), 1)
    return network.model((rows, 768)), (rows, 768)


def least(run: Callable[[], Any], other: Callable[[], Any]) -> tuple[float, float]:
    """Milliseconds of both, in turns."""
    best = [float("inf"), float("inf")]
    for _ in range(40):
        for k, call in enumerate((run, other)):
            begin = time.process_time()
            call()
            best[k] = min(best[k], (time.process_time() - begin) * 1e3)
    return best[0], best[1]


def main() -> None:
    cases = {
        "4 convolutions 3x3, 64 channels, 28x28": convolutions(64, 28),
        "4 convolutions 3x3, 256 channels, 14x14": convolutions(256, 14),
        "4 convolutions in 32 groups, 256 channels": grouped_convolutions(256, 32, 14),
        "4 inverted residuals, 24 channels, 56x56": inverted_residuals(24, 56),
        "4 inverted residuals, 64 channels, 14x14": inverted_residuals(64, 14),
        "2 products 768x3072, 64 rows": products(64),
        "2 products 768x3072, 1 row": products(1),
    }
    print(f"{'':42}{'gex ms':>10}{'onnxruntime ms':>16}{'largest difference':>20}")
    for name, (model, shape) in cases.items():
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        ours = gex.onnx.loads(model)
        x = rng.standard_normal(shape).astype(np.float32)
        apart = np.abs(ours.run([x])[0] - session.run(None, {"x": x})[0]).max()
        times = least(lambda: ours.run([x]), lambda: session.run(None, {"x": x}))  # noqa: B023
        print(f"{name:42}{times[0]:10.3f}{times[1]:16.3f}{apart:20.3f}")


if __name__ == "__main__":
    main()
