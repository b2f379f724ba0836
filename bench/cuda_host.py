"""The host's time of a call for CUDA, without a GPU: one decoder step whose kernels do nothing.

    python bench/cuda_host.py [--jobs decode,growing] [--layers 28] [--calls 60] [--rounds 5]
                              [--frozen] [--skip-module-guards]

The model has the layers and parameters of Qwen3-0.6B (cuda_models.py) with tiny sizes, its tensors
are on the CPU, and the driver library of tests/runtime/fake_cuda launches and copies nothing. What
is measured is everything between a call of the compiled module and its return, beside a backend
whose graphs only allocate their results (`empty`), with Dynamo's guards and without. The driver's
own time of a launch and of a copy, and PyTorch's CUDA allocator, are not part of it.

Processor time, the tenth percentile of the calls of the best round. `inside` is the time in the
engine's runner, `around` what gex adds to the empty graph outside of it. With dynamic=True the
empty graph also gets the floats of modules as tensors, which gex makes constants of.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(_ROOT / "tests" / "python"))

PROMPT, CACHE = 24, 152


def restart_over_idle_driver() -> None:
    """The driver library must be found before gex opens it."""
    import fake_gpu

    folder = tempfile.mkdtemp(prefix="gex_idle_driver_")
    environment = fake_gpu.environment(Path(folder)) | {
        "GEX_FAKE_CUDA_IDLE": "1",
        "GEX_CACHE_DIR": "",
        "GEX_THREADS": "1",
    }
    os.execve(sys.executable, [sys.executable, *sys.argv], environment)


def model_of(layers: int) -> Any:
    import qwen3
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    config = qwen3.full(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=32,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        num_hidden_layers=layers,
        tie_word_embeddings=False,
    )
    return AutoModelForCausalLM.from_config(config, dtype=torch.float16).eval()


Call = tuple[tuple[Any, ...], dict[str, Any]]


def decode_calls(model: Any) -> Iterator[Call]:
    """One token for each call, with transformers' static cache."""
    import torch
    from transformers import StaticCache

    cache = StaticCache(config=model.config, max_cache_len=CACHE)
    prompt = torch.arange(PROMPT)
    model(prompt[None], past_key_values=cache, cache_position=prompt)
    for step in range(PROMPT, CACHE):
        position = torch.tensor([step])
        yield (torch.tensor([[step % 60]]),), {"past_key_values": cache, "cache_position": position}


def growing_calls(_model: Any) -> Iterator[Call]:
    """The whole sequence for each call, one token longer each time."""
    import torch

    for length in range(PROMPT, CACHE):
        yield (
            (),
            {"input_ids": torch.arange(length)[None] % 60, "use_cache": False, "logits_to_keep": 1},
        )


JOBS: dict[str, Callable[[Any], Iterator[Call]]] = {
    "decode": decode_calls,
    "growing": growing_calls,
}


def empty_backend() -> Any:
    """Graphs that only allocate their results, through AOTAutograd."""
    import torch
    from torch._dynamo.backends.common import aot_autograd

    def compile_to_nothing(gm: torch.fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        results = next(node for node in gm.graph.nodes if node.op == "output").args[0]
        inputs = gm.graph.find_nodes(op="placeholder")
        # Only the batch and the vocabulary are sizes of these results.
        made = [
            inputs.index(node)
            if node in inputs
            else (tuple(map(int, node.meta["val"].shape)), node.meta["val"].dtype)
            for node in results
        ]

        def call(arguments: list[Any]) -> list[Any]:
            out = [
                arguments[entry]
                if isinstance(entry, int)
                else torch.empty(entry[0], dtype=entry[1])
                for entry in made
            ]
            arguments.clear()
            return out

        call._boxed_call = True  # type: ignore[attr-defined]
        return call

    return aot_autograd(
        fw_compiler=compile_to_nothing,
        inference_compiler=compile_to_nothing,
        keep_inference_input_mutations=True,
    )


class TimedRunners:
    """Adds up the time inside the runners of gex."""

    def __init__(self) -> None:
        from gex import _gex
        from gex.pipeline import stages

        self.seconds = 0.0
        make = stages.make_runner

        def made(request: Any) -> Any:
            return Timed(make(request), self)

        assert _gex is not None
        stages.make_runner = made


class Timed:
    _boxed_call = True

    def __init__(self, runner: Any, total: TimedRunners) -> None:
        self._runner, self._total = runner, total

    def __call__(self, arguments: list[Any]) -> Any:
        start = time.perf_counter()
        results = self._runner(arguments)
        self._total.seconds += time.perf_counter() - start
        return results

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)


def measure(
    job: str, backend: Any, options: argparse.Namespace, total: TimedRunners
) -> list[float]:
    """Microseconds of processor time of a call: all of it, without guards, inside the runner."""
    import torch

    torch._dynamo.reset()
    model = model_of(options.layers)
    keywords: dict[str, Any] = {"backend": backend, "fullgraph": True}
    if backend == "npugraph_ex":
        keywords["options"] = {"frozen_parameter": options.frozen}
        if options.skip_module_guards:
            keywords["options"]["guard_filter_fn"] = (
                torch.compiler.skip_guard_on_all_nn_modules_unsafe
            )
    compiled = torch.compile(model, dynamic=job == "growing", **keywords)

    def run() -> tuple[float, float]:
        """The tenth of the calls that took the shortest time: others were disturbed."""
        times = []
        for args, kwargs in list(JOBS[job](model))[: options.calls]:
            before, start = total.seconds, time.thread_time_ns()
            compiled(*args, **kwargs)
            took = time.thread_time_ns() - start
            times.append((took / 1e3, 1e6 * (total.seconds - before)))
        return sorted(times)[len(times) // 10]

    run()  # compiles
    guarded = min(run() for _ in range(options.rounds))
    with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
        unguarded = min(run() for _ in range(options.rounds))
    if backend == "npugraph_ex":
        show_parts(compiled, list(JOBS[job](model))[:10])
    return [guarded[0], unguarded[0], unguarded[1]]


def show_parts(compiled: Any, calls: list[Call]) -> None:
    """The fastest of some calls."""
    from gex import report

    runner = report.reports()[-1].runner
    runner.measure_overhead(True)
    seen = []
    for args, kwargs in calls:
        compiled(*args, **kwargs)
        seen.append(runner.overhead)
    parts = {name: min(part[name] for part in seen) / 1e3 for name in seen[0]}
    print(
        f"  inside: frozen parameters {parts['parameters_ns']:.1f}, "
        f"reading the other arguments {parts['inputs_ns']:.1f}, "
        f"finding the capture {parts['key_ns']:.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", default="decode,growing")
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--calls", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--frozen", action="store_true", help="with option frozen_parameter")
    parser.add_argument(
        "--skip-module-guards",
        action="store_true",
        help="with option guard_filter_fn of torch.compile: no guards on modules and parameters",
    )
    options = parser.parse_args()
    if "GEX_FAKE_CUDA_IDLE" not in os.environ:
        restart_over_idle_driver()
    import torch

    import fake_gpu

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    fake_gpu.install()
    total = TimedRunners()
    print(f"{'us of a call':<14}{'empty':>8}{'gex':>8}{'inside':>8}{'around':>8}   without guards:")
    for job in options.jobs.split(","):
        empty = measure(job, empty_backend(), options, total)
        mine = measure(job, "npugraph_ex", options, total)
        around = mine[0] - empty[0] - mine[2]
        print(
            f"{job:<14}{empty[0]:8.0f}{mine[0]:8.0f}{mine[2]:8.0f}{around:8.0f}"
            f"   {empty[1]:.0f} empty, {mine[1]:.0f} gex",
            flush=True,
        )


if __name__ == "__main__":
    main()
