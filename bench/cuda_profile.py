"""Profile of one decoder step on the GPU: each kernel with its time and the gap before it.

    python bench/cuda_profile.py [--job growing|decode] [--layers 28] [--steps 4] [--list]
                                 [--program FILE]

The model and the jobs are those of cuda_models.py. Prints the kernels of the last step summed by
name (--list: in order), the busy time of the GPU, and the time that the host needs for a step
without waiting.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import cuda_models
import torch
from torch.profiler import ProfilerActivity, profile


def kernels_of(prof: Any) -> list[tuple[float, float, str]]:
    """Start, duration in microseconds and name of every kernel, in order."""
    found = []
    for event in prof.profiler.kineto_results.events():
        if event.device_type() == torch.autograd.DeviceType.CUDA and event.duration_ns() > 0:
            found.append((event.start_ns() / 1e3, event.duration_ns() / 1e3, event.name()))
    return sorted(found)


class Timed:
    """Calls a function while the GPU is idle, and records how long each call took."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.times: list[float] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        torch.cuda.synchronize()
        start = time.perf_counter()
        result = self.function(*args, **kwargs)
        self.times.append((time.perf_counter() - start) * 1e6)
        return result


def host_time(model: Any, run: Callable[..., Any], compiled: Callable[..., Any]) -> float:
    """Microseconds of a call that finds the GPU idle, the median of 48."""
    timed = Timed(compiled)
    run(model, timed, 49)
    return sorted(timed.times)[24]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--job", default="decode", choices=list(cuda_models.JOBS))
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--vocabulary", type=int, default=151936)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--program", help="writes the text of the program to this file")
    options = parser.parse_args()
    torch.set_grad_enabled(False)
    model = cuda_models.make_model(
        options.layers, getattr(torch, options.dtype), options.vocabulary
    )
    dynamic = options.job == "growing"
    compiled = torch.compile(model, backend="npugraph_ex", dynamic=dynamic, fullgraph=True)
    run = cuda_models.JOBS[options.job]
    for _ in range(2):
        run(model, compiled, options.steps + 1)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as prof:
        run(model, compiled, options.steps + 1)
        torch.cuda.synchronize()
    kernels = kernels_of(prof)
    # A step ends with the argmax of its logits.
    ends = [i for i, kernel in enumerate(kernels) if "ArgMax" in kernel[2]]
    step = kernels[ends[-2] + 1 : ends[-1] + 1]
    busy = sum(kernel[1] for kernel in step)
    span = step[-1][0] + step[-1][1] - step[0][0]
    print(f"last step: {len(step)} kernels, {span:.0f} us, of which {busy:.0f} us computing")
    if options.list:
        last = step[0][0]
        for start, duration, name in step:
            print(f"{start - last:8.2f} gap {duration:8.2f} us  {name[:100]}")
            last = start + duration
    else:
        sums: dict[str, list[float]] = defaultdict(list)
        for _, duration, name in step:
            sums[name[:90]].append(duration)
        for name, times in sorted(sums.items(), key=lambda item: -sum(item[1])):
            print(f"{sum(times):9.1f} us {len(times):5} x {sum(times) / len(times):7.2f}  {name}")
    print(f"host: {host_time(model, run, compiled):.0f} us for a call", end="")
    with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
        print(f", {host_time(model, run, compiled):.0f} us without Dynamo's guards")
    if options.program:
        from gex import report

        with open(options.program, "w") as file:
            file.write(report.reports()[-1].runner.text("program"))


if __name__ == "__main__":
    main()
