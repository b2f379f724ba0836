"""Memory of a call: gex's plan, its lower bound, and eager's peak.

Planned bytes are those of the arena: every value that lives only inside a call. `gex` adds the
results, which belong to the caller; `eager` is the peak of PyTorch's allocator during a call.
Parameters are not included. `scratch` is what gex's kernels allocate for themselves (packed
panels), for all workers; `mkl` is what PyTorch's MKL allocates for the same, beside its tensors
(`-`: this PyTorch has no MKL to ask). With --zoo: every model of tests/python/zoo, only gex. If a
plan is more than 5 % above its lower bound, the reason follows.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
MEGABYTE = 1 << 20


def tensors(outputs: Any) -> Iterator[torch.Tensor]:
    from torch.utils._pytree import tree_leaves

    outputs = dict(outputs) if hasattr(outputs, "keys") else outputs
    yield from (leaf for leaf in tree_leaves(outputs) if isinstance(leaf, torch.Tensor))


def eager_peak(call: Callable[[], Any]) -> tuple[int, int]:
    """Peak bytes of the tensors made in the call, and bytes of its results."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        results = call()
    held = most = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    kept = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors(results)}
    return most, sum(kept.values())


def mkl_peak(call: Callable[[], Any]) -> int | None:
    """Peak bytes of what PyTorch's MKL allocates in the call. None: there is no MKL to ask."""
    path = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    library = ctypes.CDLL(str(path)) if path.exists() else None
    if library is None or not hasattr(library, "mkl_serv_peak_mem_usage"):
        return None
    peak = library.mkl_serv_peak_mem_usage
    peak.restype = ctypes.c_int64
    enable, reset, most = 1, -1, 2  # mkl_service.h: MKL_PEAK_MEM_*
    library.mkl_serv_free_buffers()
    peak(enable)
    peak(reset)
    call()
    return int(peak(most))


def plans(call: Callable[[], Any]) -> list[dict[str, Any]]:
    """The memory plan of every graph that the call compiles, largest first."""
    import gex

    with gex.report.collect() as reports:
        call()
    found = []
    for runner in (r.runner for r in reports if r.runner is not None):
        arenas = sum(plan["arena"] for plan in runner.memory)
        scratch = runner.counters["arena_bytes"] - arenas
        found += [{**plan, "all_scratch": scratch} for plan in runner.memory]
    return sorted(found, key=lambda plan: -plan["arena"])


def row(name: str, found: list[dict[str, Any]], beside: str = "") -> None:
    """One line for the largest plan, and one for each plan above its lower bound."""
    keys = ("arena", "lower_bound", "without_reuse", "all_scratch")
    arena, bound, apart, scratch = (found[0][key] / MEGABYTE for key in keys)
    ratio = arena / bound if bound else 1.0
    print(f"{name:<24}{arena:10.2f}{bound:10.2f}{ratio:8.3f}{apart:10.2f}{scratch:10.2f}{beside}")
    for plan in found:
        if plan["why"]:
            print(f"    {plan['why']}")


def run_jobs(names: list[str]) -> None:
    from jobs import JOBS

    columns = f"{'planned':>10}{'bound':>10}{'ratio':>8}{'no reuse':>10}{'scratch':>10}"
    print(f"{'job, MiB':<24}{columns}{'gex':>10}{'eager':>10}{'mkl':>10}")
    for name in names or [n for n in JOBS if n != "qwen_decode"]:
        model, inputs, options = JOBS[name]()
        torch._dynamo.reset()
        compiled = torch.compile(
            model, backend="gex", options={"frozen_parameter": True}, **options
        )
        with torch.no_grad():
            peak, results = eager_peak(lambda model=model, inputs=inputs: model(*inputs[0]))
            library = mkl_peak(lambda model=model, inputs=inputs: model(*inputs[0]))
            found = plans(lambda compiled=compiled, inputs=inputs: compiled(*inputs[0]))
        with_results = found[0]["arena"] + results
        beside = f"{'-':>10}" if library is None else f"{library / MEGABYTE:10.2f}"
        row(name, found, f"{with_results / MEGABYTE:10.2f}{peak / MEGABYTE:10.2f}{beside}")


def run_zoo(names: list[str]) -> None:
    sys.path.insert(0, str(ROOT / "tests" / "python"))
    from zoo.families import MODELS

    columns = f"{'planned':>10}{'bound':>10}{'ratio':>8}{'no reuse':>10}{'scratch':>10}"
    print(f"{'model, MiB':<24}{columns}")
    over = 0
    for name, model in MODELS.items():
        if names and name not in names:
            continue
        module, inputs = model.build(), model.inputs(2)
        torch._dynamo.reset()
        with torch.no_grad():
            compiled = torch.compile(module, backend="gex")
            found = plans(lambda compiled=compiled, inputs=inputs: compiled(**inputs))
        if not found:
            continue
        row(name, found)
        over += any(plan["why"] for plan in found)
    print(f"{over} models above 1.05 times their lower bound")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="jobs or models; all if none is named")
    parser.add_argument("--zoo", action="store_true", help="the models of the zoo instead of jobs")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    (run_zoo if arguments.zoo else run_jobs)(arguments.names)


if __name__ == "__main__":
    main()
