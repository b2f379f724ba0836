"""Compares backends on the CPU: each (job, backend) in a separate process, rounds interleaved.

For each pair: seconds of the first call (compilation included), median milliseconds of later calls,
the minimum processor time of a call, peak memory, and the largest error relative to eager.
`npugraph_ex` runs with frozen_parameter. With --threads 1 the processor time is a fair measure on a
busy machine, where wall times are not. """

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from results import add_option, load, record

ALL = [
    "mlp",
    "resnet50",
    "bert",
    "qwen_tiny",
    "qwen_grow",
    "pointwise",
    "mmoe",
    "wide_deep",
    "train_mlp",
    "qwen_decode",
    "qwen_prefill",
    "chain",
    "block",
]
NOT_BY_DEFAULT = ("qwen_decode", "qwen_prefill", "chain", "block")


def flat(outputs: Any) -> list[Any]:
    import torch

    if isinstance(outputs, torch.Tensor):
        return [outputs]
    return [t for part in outputs for t in flat(part)]


def measure(call: Callable[[], Any], seconds: float, calls: int = 1) -> dict[str, float]:
    """Milliseconds for each of the `calls` that one `call()` makes."""
    times: list[float] = []
    processor: list[float] = []
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds or len(times) < 5:
        start, busy = time.perf_counter(), time.process_time()
        call()
        times.append(time.perf_counter() - start)
        processor.append(time.process_time() - busy)
    scale = 1e3 / calls
    return {"ms": statistics.median(times) * scale, "cpu": min(processor) * scale}


def train(backend: str, seconds: float) -> dict[str, float]:
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(128, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)
    )
    forward = model if backend == "eager" else torch.compile(model, backend=backend)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = torch.nn.CrossEntropyLoss()
    x, y = torch.randn(32, 128), torch.randint(0, 10, (32,))

    def step() -> Any:
        loss = criterion(forward(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    start = time.perf_counter()
    step()
    first = time.perf_counter() - start
    return {"first": first, "err": 0.0} | measure(step, seconds)


def infer(job: str, backend: str, seconds: float) -> dict[str, float]:
    import torch
    from jobs import JOBS

    torch.manual_seed(0)
    model, inputs, keywords = JOBS[job]()
    with torch.no_grad():
        reference = flat(model(*inputs[0]))
        start = time.perf_counter()
        if backend == "eager":
            compiled: Any = model
        elif backend == "gex.compile":
            import gex

            any_length = ({1: torch.export.Dim("length", min=2, max=4096)},)
            shapes = any_length if keywords.get("dynamic") else None
            compiled = gex.compile(model, inputs[0], dynamic_shapes=shapes)
        else:
            options = {"frozen_parameter": True} if backend == "npugraph_ex" else None
            compiled = torch.compile(model, backend=backend, options=options, **keywords)
        outputs = flat(compiled(*inputs[0]))
        first = time.perf_counter() - start
        error = max(
            float((a.float() - b.float()).abs().max() / b.float().abs().max().clamp_min(1e-6))
            for a, b in zip(outputs, reference)
        )
        for arguments in inputs:
            compiled(*arguments)

        def sweep() -> None:
            for arguments in inputs:
                compiled(*arguments)

        return {"first": first, "err": error} | measure(sweep, seconds, len(inputs))


def worker(job: str, backend: str, seconds: float, threads: int) -> None:
    import torch

    torch.set_num_threads(threads)
    result = train(backend, seconds) if job == "train_mlp" else infer(job, backend, seconds)
    result["rss"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print("RESULT " + json.dumps(result))


def run_once(job: str, backend: str, seconds: float, threads: int) -> dict[str, Any]:
    environment = dict(os.environ, TORCHINDUCTOR_FORCE_DISABLE_CACHES="1")
    environment |= {"OMP_NUM_THREADS": str(threads), "GEX_NUM_THREADS": str(threads)}
    command = [sys.executable, __file__, "--worker", job, backend, "--seconds", str(seconds)]
    command += ["--threads", str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=1500)
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            return json.loads(line[7:])
    reason = (done.stderr.strip().splitlines() or ["no output"])[-1]
    return {"error": reason[:160]}


def record_jobs(path: Path, subject: str, results: dict[str, dict[str, Any]]) -> None:
    measures = {"calls": {"calls": "ms", "first_calls_of_jobs": "first"}}
    for name, measure in measures.get(subject, {subject: "cpu"}).items():
        columns = load(path)["subjects"][name]["columns"]
        rows = {
            job: {c: backends[c][measure] for c in columns if c in backends}
            for job, backends in results.items()
        }
        record(path, name, {job: row for job, row in rows.items() if row})


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    usual = [job for job in ALL if job not in NOT_BY_DEFAULT]
    parser.add_argument("--jobs", default=",".join(usual), help="of " + ", ".join(ALL))
    parser.add_argument(
        "--backends",
        default="eager,aot_eager,inductor,npugraph_ex",
        help="also gex.compile, which needs no Dynamo (not for train_mlp)",
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=Path)
    add_option(parser)
    parser.add_argument("--subject", default="calls", help="of the results file that is written")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(*arguments.worker, arguments.seconds, arguments.threads)
        return 0
    unknown = [j for j in arguments.jobs.split(",") if j not in ALL]
    if unknown:
        parser.error(f"no such job: {', '.join(unknown)}; there are: {', '.join(ALL)}")

    results: dict[str, dict[str, Any]] = {}
    heads = f"{'steady ms':>11}{'cpu ms':>11}{'first s':>9}{'rss MiB':>9}{'error':>10}"
    print(f"{'job':<12}{'backend':<14}{heads}")
    for job in arguments.jobs.split(","):
        rows: dict[str, list[dict[str, Any]]] = {}
        for _ in range(arguments.rounds):
            for backend in arguments.backends.split(","):
                run = run_once(job, backend, arguments.seconds, arguments.threads)
                rows.setdefault(backend, []).append(run)
        for backend, runs in rows.items():
            good = [r for r in runs if "ms" in r]
            if not good:
                print(f"{job:<12}{backend:<14}failed: {runs[-1]['error']}", flush=True)
                continue
            best = {
                "ms": min(r["ms"] for r in good),
                "cpu": min(r["cpu"] for r in good),
                "first": min(r["first"] for r in good),
                "rss": max(r["rss"] for r in good),
                "err": max(r["err"] for r in good),
            }
            results.setdefault(job, {})[backend] = best
            print(
                f"{job:<12}{backend:<14}{best['ms']:>11.3f}{best['cpu']:>11.3f}{best['first']:>9.2f}"
                f"{best['rss']:>9.0f}{best['err']:>10.1e}",
                flush=True,
            )
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1))
    if arguments.results:
        record_jobs(arguments.results, arguments.subject, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
