"""Time of a call by the number of threads, and what part of the ideal speed-up is reached.

    PYTHONPATH=build/python python bench/scaling.py --threads 1,2,4,8,16

Each (job, backend, threads) runs in a separate process, as in bench/compare.py. efficiency: the
time of one thread over that of n, divided by n. Needs as many idle cores as threads.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from compare import run_once

JOBS = "bert,resnet50"
BACKENDS = "eager,gex.compile"


def counts(cores: int) -> list[int]:
    """1, 2, 4, ... up to the number of cores, which is the last one."""
    found = [1]
    while found[-1] * 2 < cores:
        found.append(found[-1] * 2)
    return found + [cores] * (cores > 1)


def scaling(times: dict[int, float]) -> dict[int, float]:
    """The efficiency for each number of threads."""
    fewest = min(times)
    return {n: times[fewest] * fewest / (times[n] * n) for n in times}


def measure(job: str, backend: str, arguments: argparse.Namespace) -> dict[int, float]:
    times: dict[int, float] = {}
    for _ in range(arguments.rounds):
        for n in arguments.threads:
            run = run_once(job, backend, arguments.seconds, n)
            if "ms" not in run:
                print(f"{job:<20}{backend:<14}{n:>8}  failed: {run['error']}", flush=True)
                return {}
            times[n] = min(run["ms"], times.get(n, run["ms"]))
    return times


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--jobs", default=JOBS, help="of bench/compare.py")
    parser.add_argument("--backends", default=BACKENDS)
    parser.add_argument(
        "--threads", type=lambda text: [int(n) for n in text.split(",")], default=counts(cores)
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--out", type=Path, help="a JSON file: milliseconds by job and backend")
    arguments = parser.parse_args()
    if max(arguments.threads) > cores:
        parser.error(f"{max(arguments.threads)} threads, but there are {cores} cores")
    results: dict[str, dict[str, dict[int, float]]] = {}
    print(f"{'job':<20}{'backend':<14}{'threads':>8}{'ms':>11}{'efficiency':>12}")
    for job in arguments.jobs.split(","):
        for backend in arguments.backends.split(","):
            times = measure(job, backend, arguments)
            results.setdefault(job, {})[backend] = times
            for n, part in scaling(times).items() if times else ():
                print(f"{job:<20}{backend:<14}{n:>8}{times[n]:>11.3f}{part:>11.0%}", flush=True)
            if arguments.out:
                arguments.out.write_text(json.dumps(results, indent=1))
    return 0 if all(times for job in results.values() for times in job.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
