"""Compares backends on the CPU: each (job, backend) in a separate process, rounds interleaved.

For each pair: seconds of the first call (compilation included), median milliseconds of later calls,
the minimum processor time of a call, peak memory, and the largest error relative to eager.
`npugraph_ex` runs with frozen_parameter. With --threads 1 the processor time is a fair measure on a
busy machine, where wall times are not."""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from results import add_option, load, record

USUAL = [
    "mlp",
    "resnet50",
    "bert",
    "qwen_tiny",
    "qwen_grow",
    "pointwise",
    "mmoe",
    "wide_deep",
    "train_mlp",
]
BACKENDS = "eager,aot_eager,inductor,npugraph_ex"
OF_SUITE = "eager,inductor,onnxruntime,openvino,npugraph_ex,gex.compile,gex.training_step"
OURS = ("npugraph_ex", "gex.compile", "gex.training_step")


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


def train(job: str, backend: str, seconds: float) -> dict[str, float]:
    import torch
    from suite_sequences import TRAINING

    torch.manual_seed(0)
    training = TRAINING[job]()
    model, optimizer = training.model, training.optimizer(training.model)
    criterion = torch.nn.CrossEntropyLoss()
    args = (*training.inputs, training.targets)
    if backend == "gex.training_step":
        import gex

        whole = gex.training_step(model, criterion, optimizer)

        def step() -> Any:
            return whole(*args)
    else:
        forward = model if backend == "eager" else torch.compile(model, backend=backend)

        def step() -> Any:
            loss = criterion(forward(*training.inputs), training.targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

    start = time.perf_counter()
    step()
    step()  # the first step of gex.training_step is the optimizer's own
    first = time.perf_counter() - start
    return {"first": first, "err": 0.0} | measure(step, seconds)


def infer(job: str, backend: str, seconds: float) -> dict[str, float]:
    import torch
    from jobs import JOBS
    from peers import compile_with
    from suite_convolutions import CONVOLUTIONS
    from suite_families import FAMILIES
    from suite_models import MODELS
    from suite_sequences import SEQUENCES
    from suite_vision import VISION

    torch.manual_seed(0)
    table = JOBS | {f.__name__: f for f in VISION + CONVOLUTIONS + FAMILIES + SEQUENCES + MODELS}
    model, inputs, keywords = table[job]()
    with torch.no_grad():
        reference = flat(model(*inputs[0]))
        start = time.perf_counter()
        compiled = compile_with(backend, job, model, inputs[0], keywords)
        outputs = flat(compiled(*inputs[0]))
        first = time.perf_counter() - start
        error = max(
            float((a.float() - b.float()).abs().max() / b.float().abs().max().clamp_min(1e-6))
            for a, b in zip(outputs, reference, strict=True)
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
    run = train if job.startswith("train_") else infer
    result = run(job, backend, seconds)
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


def names() -> tuple[list[str], list[str]]:
    """All jobs, and those of the suite."""
    from jobs import JOBS
    from suite_convolutions import CONVOLUTIONS
    from suite_families import FAMILIES
    from suite_models import MODELS
    from suite_sequences import SEQUENCES, TRAINING
    from suite_vision import VISION

    inference = VISION + CONVOLUTIONS + FAMILIES + SEQUENCES + MODELS
    suite = [f.__name__ for f in inference] + list(TRAINING)
    return list(dict.fromkeys([*JOBS, *suite])), suite


def selected(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> list[str]:
    every, suite = names()
    jobs = [j for word in arguments.jobs.split(",") for j in (suite if word == "suite" else [word])]
    unknown = [j for j in jobs if j not in every]
    if unknown:
        parser.error(f"no such job: {', '.join(unknown)}; there are: suite, {', '.join(every)}")
    return jobs


def can_run(job: str, backend: str) -> bool:
    from peers import RUNTIMES

    trains = job.startswith("train_")
    return backend not in (*RUNTIMES, "gex.compile") if trains else backend != "gex.training_step"


def best_of(runs: list[dict[str, Any]]) -> dict[str, float]:
    least = {key: min(r[key] for r in runs) for key in ("ms", "cpu", "first")}
    return least | {key: max(r[key] for r in runs) for key in ("rss", "err")}


def run_job(job: str, arguments: argparse.Namespace) -> dict[str, Any]:
    rows: dict[str, list[dict[str, Any]]] = {}
    backends = [b for b in arguments.backends.split(",") if can_run(job, b)]
    for _ in range(arguments.rounds):
        for backend in backends:
            run = run_once(job, backend, arguments.seconds, arguments.threads)
            rows.setdefault(backend, []).append(run)
    results = {}
    for backend, runs in rows.items():
        good = [r for r in runs if "ms" in r]
        if not good:
            print(f"{job:<20}{backend:<18}failed: {runs[-1]['error']}", flush=True)
            continue
        best = results[backend] = best_of(good)
        print(
            f"{job:<20}{backend:<18}{best['ms']:>11.3f}{best['cpu']:>11.3f}{best['first']:>9.2f}"
            f"{best['rss']:>9.0f}{best['err']:>10.1e}",
            flush=True,
        )
    return results


def summary(results: dict[str, dict[str, Any]], measure: str) -> list[str]:
    """Ours over the best peer of each job, worst first, and the median."""
    ratios: dict[str, float] = {}
    for job, backends in results.items():
        ours = [r[measure] for b, r in backends.items() if b in OURS]
        peers = [r[measure] for b, r in backends.items() if b not in (*OURS, "aot_eager")]
        if ours and peers:
            ratios[job] = min(ours) / min(peers)
    if not ratios:
        return []
    lines = [f"{job:<20}{r:6.2f}" for job, r in sorted(ratios.items(), key=lambda x: -x[1])]
    middle = statistics.median(ratios.values())
    return [f"ours over the best peer ({measure}), median {middle:.2f}:", *lines]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--jobs", default=",".join(USUAL), help="names, or suite: all of the suite")
    parser.add_argument("--backends", default=BACKENDS, help=f"for the suite: {OF_SUITE}")
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
    results: dict[str, dict[str, Any]] = {}
    heads = f"{'steady ms':>11}{'cpu ms':>11}{'first s':>9}{'rss MiB':>9}{'error':>10}"
    jobs = selected(arguments, parser)
    print(f"{'job':<20}{'backend':<18}{heads}")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["GEX_BENCH_ONNX"] = folder
        for job in jobs:
            results[job] = run_job(job, arguments)
            if arguments.out:
                arguments.out.write_text(json.dumps(results, indent=1))
    print("\n".join(summary(results, "cpu" if arguments.threads == 1 else "ms")))
    if arguments.results:
        record_jobs(arguments.results, arguments.subject, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
