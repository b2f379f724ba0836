"""Runs the kernels that dump.cpp wrote (kernels_*.cu, cases.json, data.bin) on a GPU: compiles them
with nvcc, checks each against the expected results, then times those that are to be timed.

usage: run.py FOLDER [--check | --time]
"""

import ctypes
import json
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import torch

DTYPES = {
    "f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16,
    "i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8,
    "u8": torch.uint8, "bool": torch.bool,
}  # fmt: skip
driver = ctypes.CDLL("libcuda.so.1")


def call(name: str, *arguments: Any) -> None:
    status = getattr(driver, name)(*arguments)
    if status != 0:
        raise RuntimeError(f"{name} gives {status}")


class Kernel:
    def __init__(self, modules: list[ctypes.c_void_p], case: dict[str, Any]) -> None:
        self.case = case
        self.function = ctypes.c_void_p()
        name = case["function"].encode()
        get = driver.cuModuleGetFunction
        if all(get(ctypes.byref(self.function), module, name) != 0 for module in modules):
            raise RuntimeError(f"no kernel {case['function']}")
        call("cuFuncSetAttribute", self.function, 8, max(case["shared"], 0))

    def prepare(self, buffers: list[torch.Tensor]) -> None:
        self.buffers = list(buffers)
        if self.case["workspace"] >= 0:
            size = max(self.case["workspace"], 16)
            self.buffers.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        words = [b.data_ptr() for b in self.buffers] + self.case["dims"]
        self.words = torch.tensor(words, dtype=torch.int64, device="cuda")
        self.argument = ctypes.c_void_p(self.words.data_ptr())
        self.arguments = (ctypes.c_void_p * 1)(ctypes.addressof(self.argument))

    def launch(self) -> None:
        if self.case["grid"] == 0:
            return
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        call(
            "cuLaunchKernel", self.function, self.case["grid"], 1, 1, self.case["block"], 1, 1,
            self.case["shared"], stream, self.arguments, None,
        )  # fmt: skip


def compile_all(folder: pathlib.Path) -> list[pathlib.Path]:
    flags = ["-arch=sm_90", "-std=c++17", "-diag-suppress", "177", "--fmad=false", "-cubin"]
    running = []
    for source in sorted(folder.glob("kernels_*.cu")):
        target = source.with_suffix(".cubin")
        running.append((target, subprocess.Popen(["nvcc", *flags, "-o", target, source])))
    for target, process in running:
        if process.wait() != 0:
            raise RuntimeError(f"nvcc fails on {target}")
    return [target for target, _ in running]


def load(path: pathlib.Path) -> ctypes.c_void_p:
    module = ctypes.c_void_p()
    call("cuModuleLoadData", ctypes.byref(module), path.read_bytes())
    return module


def distance(got: torch.Tensor, want: torch.Tensor) -> float:
    if not got.dtype.is_floating_point:
        return 0.0 if torch.equal(got, want) else float("inf")
    a, b = got.double(), want.double()
    same = (a == b) | (a.isnan() & b.isnan())
    far = ((a - b).abs() / b.abs().clamp(min=1)).where(~same, torch.zeros_like(a))
    return float("inf") if bool(far.isnan().any()) else float(far.max())


def check(modules: list[ctypes.c_void_p], cases: list[dict[str, Any]], data: bytes) -> int:
    failures = 0
    for case in cases:
        if "buffers" not in case:
            continue
        before, after = [], []
        for dtype, count, first, second, _ in case["buffers"]:
            kind = DTYPES[dtype]
            size = count * torch.empty(0, dtype=kind).element_size()
            view = torch.frombuffer(bytearray(data[first : first + size] or b"0" * 8), dtype=kind)
            before.append(view[:count].cuda())
            view = torch.frombuffer(bytearray(data[second : second + size] or b"0" * 8), dtype=kind)
            after.append(view[:count])
        kernel = Kernel(modules, case)
        kernel.prepare(before)
        kernel.launch()
        torch.cuda.synchronize()
        for number, (_, count, _, _, allowed) in enumerate(case["buffers"]):
            far = distance(before[number].cpu(), after[number]) if count else 0.0
            if far > allowed:
                failures += 1
                print(f"FAILED {case['name']}, buffer {number}: {far} instead of {allowed}")
    print(f"checked {sum('buffers' in c for c in cases)} kernels, {failures} failures")
    return failures


def seconds(run: Any, launches: int = 20) -> float:
    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(launches):
            run()
    graph.replay()
    best = float("inf")
    for _ in range(3):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        best = min(best, start.elapsed_time(end) / launches / 1e3)
    return best


def random(shape: list[int], dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(shape, device="cuda", dtype=torch.float32).mul_(0.25).to(dtype)


def time_product(kernel: Kernel) -> str:
    case = kernel.case
    m, n, k = case["sizes"]
    dtype = DTYPES[case["dtype"]]
    a = random([m, k], dtype)
    b = random([n, k] if case["linear"] else [k, n], dtype)
    c = torch.empty(m, n, device="cuda", dtype=dtype)
    kernel.prepare([a, b, c])
    kernel.launch()
    right = b.t() if case["linear"] else b
    want = a @ right
    error = float((c.float() - want.float()).abs().max() / want.float().abs().max())
    ours, eager = seconds(kernel.launch), seconds(lambda: torch.matmul(a, right, out=c))
    moved = (m * k + n * k + m * n) * a.element_size()
    return (
        f"{ours * 1e6:9.2f} us  {moved / ours / 1e9:7.0f} GB/s {2 * m * n * k / ours / 1e12:7.1f} "
        f"TFLOP/s  cuBLAS {eager * 1e6:9.2f} us  error {error:.1e}"
    )


def time_attention(kernel: Kernel) -> str:
    d = kernel.case["dims"]
    q = random([d[0], d[1], d[3], d[5]], torch.float16)
    k, v = (random([d[0], d[2], d[4], d[5]], torch.float16) for _ in range(2))
    out = torch.empty_like(q)
    kernel.prepare([q, k, v, out])
    kernel.launch()
    causal = bool(kernel.case["causal"])
    attend = torch.nn.functional.scaled_dot_product_attention

    def eager() -> torch.Tensor:
        return attend(q, k, v, is_causal=causal, enable_gqa=d[1] != d[2])

    want = eager()
    error = float((out.float() - want.float()).abs().max())
    ours, theirs = seconds(kernel.launch), seconds(eager)
    flops = 4 * d[0] * d[1] * d[3] * d[4] * d[5] / (2 if causal else 1)
    moved = 4 * d[0] * d[2] * d[4] * d[5]
    return (
        f"{ours * 1e6:9.2f} us  {moved / ours / 1e9:7.0f} GB/s {flops / ours / 1e12:7.1f} TFLOP/s  "
        f"sdpa {theirs * 1e6:9.2f} us  error {error:.1e}"
    )


def time_conv(kernel: Kernel) -> str:
    case = kernel.case
    n, c, h, w, o, oh, ow, kh, kw = case["dims"][:9]
    dtype, groups, stride, pad = DTYPES[case["dtype"]], case["groups"], case["stride"], case["pad"]
    x, weight = random([n, c, h, w], dtype), random([o, c // groups, kh, kw], dtype)
    grad = random([n, o, oh, ow], dtype)
    out = torch.empty_like({"forward": grad, "weight_grad": weight, "input_grad": x}[case["form"]])
    mask = [case["form"] == "input_grad", case["form"] == "weight_grad", False]

    def eager(channels_last: bool) -> Callable[[], torch.Tensor]:
        layout = torch.channels_last if channels_last else torch.contiguous_format
        tensors = [t.contiguous(memory_format=layout) for t in (x, weight, grad)]
        if case["form"] == "forward":
            return lambda: torch.conv2d(tensors[0], tensors[1], None, stride, pad, 1, groups)
        parameters = ([stride] * 2, [pad] * 2, [1, 1], False, [0, 0], groups, mask)
        backward = torch.ops.aten.convolution_backward
        return lambda: next(
            t
            for t in backward(tensors[2], tensors[0], tensors[1], None, *parameters)
            if t is not None
        )

    buffers = {"forward": [x, weight], "weight_grad": [x, grad], "input_grad": [grad, weight]}
    kernel.prepare([*buffers[case["form"]], out])
    kernel.launch()
    want = eager(False)().float()
    error = float((out.float() - want).abs().max() / want.abs().max())
    ours = seconds(kernel.launch)
    nchw, nhwc = seconds(eager(False)), seconds(eager(True))
    flops = 2 * n * o * oh * ow * (c // groups) * kh * kw
    moved = (x.numel() + weight.numel() + grad.numel()) * x.element_size()
    return (
        f"{ours * 1e6:9.2f} us  {moved / ours / 1e9:7.0f} GB/s {flops / ours / 1e12:7.1f} TFLOP/s  "
        f"cuDNN {nchw * 1e6:9.2f} us, channels last {nhwc * 1e6:9.2f} us  error {error:.1e}"
    )


def time_loop(kernel: Kernel) -> str:
    kernel.prepare([random([size], DTYPES[dtype]) for dtype, size in kernel.case["operands"]])
    ours = seconds(kernel.launch, 5)
    return f"{ours * 1e6:9.2f} us  {kernel.case['bytes'] / ours / 1e9:7.0f} GB/s"


def time(modules: list[ctypes.c_void_p], cases: list[dict[str, Any]]) -> None:
    timers = {
        "product": time_product, "attention": time_attention, "conv": time_conv, "loop": time_loop
    }  # fmt: skip
    for case in cases:
        if "timed" in case:
            print(f"{case['name']:58} {timers[case['timed']](Kernel(modules, case))}", flush=True)


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    what = sys.argv[2:]
    torch.zeros(1, device="cuda")
    cases = json.loads((folder / "cases.json").read_text())
    modules = [load(path) for path in compile_all(folder)]
    failures = 0
    if "--time" not in what:
        failures = check(modules, cases, (folder / "data.bin").read_bytes())
    if "--check" not in what:
        time(modules, cases)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
