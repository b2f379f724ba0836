"""How far Winograd's algorithm and direct sums are from f64 in convolutions of random sizes.

    python bench/winograd_error.py [--cases 40]

Prints the largest error of each, relative to the largest result of its convolution.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys


def worst(cases: int) -> float:
    import torch

    import gex

    random.seed(1)
    torch.manual_seed(1)
    torch.set_grad_enabled(False)
    largest = 0.0
    for _ in range(cases):
        channels, features = random.choice([16, 32, 64, 96]), random.choice([16, 40, 64])
        model = torch.nn.Conv2d(channels, features, 3, padding=random.choice([0, 1, 2]))
        x = torch.randn(random.choice([1, 3]), channels, *random.choices(range(5, 40), k=2))
        got, expected = gex.compile(model, (x,))(x), model.double()(x.double())
        largest = max(largest, float((got - expected).abs().max() / expected.abs().max()))
    return largest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(worst(options.cases))
        return
    for name, setting in (("winograd", "1"), ("direct", "0")):
        command = [sys.executable, __file__, "--worker", "--cases", str(options.cases)]
        environment = {**os.environ, "GEX_WINOGRAD": setting}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        print(f"{name:10} {float(done.stdout):.1e}", flush=True)


if __name__ == "__main__":
    main()
