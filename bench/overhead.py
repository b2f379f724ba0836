"""What watching costs: calls of ResNet-50 with nothing on, traced for a report, under `gex top`,
and in PyTorch's profiler.

Processor time of one thread; the cases alternate, and the least of all rounds counts, so that other
processes disturb less. `again` repeats the first case: its distance from `off` is the error of the
measurement.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import jobs
import torch

from gex.report import live, page


@contextlib.contextmanager
def published() -> object:
    publisher = live.start()
    try:
        yield
    finally:
        publisher.stop()


def profiled() -> AbstractContextManager[object]:
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])


WAYS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "off": contextlib.nullcontext,
    "traced for a report": page.traced,
    "gex top": published,
    "torch.profiler": profiled,
    "again": contextlib.nullcontext,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--calls", type=int, default=12, help="in one timing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model, [inputs], _ = jobs.resnet50()
    compiled = torch.compile(model, backend="gex")
    for _ in range(70):  # the last with code for these very sizes
        compiled(*inputs)
    best = dict.fromkeys(WAYS, float("inf"))
    for _ in range(arguments.rounds):
        for name, watching in WAYS.items():
            with watching():
                compiled(*inputs)
                start = time.thread_time()
                for _ in range(arguments.calls):
                    compiled(*inputs)
                took = time.thread_time() - start
            best[name] = min(best[name], 1e3 * took / arguments.calls)
    for name, value in best.items():
        print(f"{name:22s}{value:9.3f} ms{100 * (value / best['off'] - 1):+8.2f} %")


if __name__ == "__main__":
    with torch.no_grad():
        main()
