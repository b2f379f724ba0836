"""Backends of the comparison: each turns a model into a function of the same tensors."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

Inputs = tuple[torch.Tensor, ...]
RUNTIMES = ("onnxruntime", "openvino")  # not of PyTorch: they read an ONNX file
PEERS = ("eager", "inductor", *RUNTIMES)


def any_length(inputs: Inputs) -> tuple[dict[int, Any], ...]:
    """The second dimension of every input is dynamic."""
    length = torch.export.Dim("length", min=2, max=4096)
    return tuple({1: length} for _ in inputs)


def exported(job: str, model: nn.Module, inputs: Inputs, dynamic: bool) -> Path:
    """The model as an ONNX file, which both runtimes of a run share."""
    folder = Path(os.environ.get("GEX_BENCH_ONNX", tempfile.gettempdir()))
    path = folder / f"gex_bench_{job}.onnx"
    if not path.exists():
        names = [f"x{k}" for k in range(len(inputs))]
        shapes = any_length(inputs) if dynamic else None
        torch.onnx.export(
            model,
            inputs,
            path,
            input_names=names,
            dynamo=True,
            external_data=True,
            dynamic_shapes=shapes,
            verbose=False,
        )
    return path


def with_onnxruntime(path: Path, threads: int) -> Callable[..., Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [x.name for x in session.get_inputs()]

    def call(*args: torch.Tensor) -> list[torch.Tensor]:
        feeds = {name: x.numpy() for name, x in zip(names, args)}
        return [torch.from_numpy(y) for y in session.run(None, feeds)]

    return call


def with_openvino(path: Path, threads: int) -> Callable[..., Any]:
    import openvino

    settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
    settings["INFERENCE_PRECISION_HINT"] = "f32"
    request = openvino.Core().compile_model(path, "CPU", settings).create_infer_request()

    def call(*args: torch.Tensor) -> list[torch.Tensor]:
        results = request.infer([x.numpy() for x in args], share_inputs=True)
        return [torch.from_numpy(y) for y in results.values()]

    return call


def compile_with(
    backend: str, job: str, model: nn.Module, inputs: Inputs, keywords: dict[str, Any]
) -> Callable[..., Any]:
    dynamic = bool(keywords.get("dynamic"))
    threads = torch.get_num_threads()
    if backend == "eager":
        return model
    if backend in RUNTIMES:
        path = exported(job, model, inputs, dynamic)
        read = with_onnxruntime if backend == "onnxruntime" else with_openvino
        return read(path, threads)
    if backend == "gex.compile":
        import gex

        shapes = any_length(inputs) if dynamic else None
        return gex.compile(model, inputs, dynamic_shapes=shapes)
    options = {"frozen_parameter": True} if backend == "npugraph_ex" else None
    return torch.compile(model, backend=backend, options=options, **keywords)
