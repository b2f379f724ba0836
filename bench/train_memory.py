"""Peak memory of a training step over model and optimizer, compiled beside eager.

Each pair of model and backend runs in its own process, with memory returned to the system as soon
as it is freed. Counted is the peak of resident memory over what the process holds between steps
with gradients and kept temporaries freed.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from results import add_option, record

WARM_UP, STEPS = 3, 3
BACKENDS = ("eager", "gex")


def models() -> dict[str, Any]:
    import torch
    from torch import nn
    from torch.nn import functional

    class Block(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            batch, tokens, width = x.shape
            parts = self.qkv(self.norm1(x)).split(width, -1)
            q, k, v = (p.view(batch, tokens, 4, width // 4).transpose(1, 2) for p in parts)
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
            return x + self.down(functional.gelu(self.up(self.norm2(x))))

    class Gpt(nn.Module):
        def __init__(self, vocabulary: int, width: int, layers: int, tokens: int) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(tokens, width)
            self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x)).flatten(0, 1)

    def convolution(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        )

    class Residual(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.first, self.second = (
                convolution(inputs, outputs, stride),
                convolution(outputs, outputs),
            )
            self.skip = (
                nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1, stride)
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            inner = self.second(functional.relu(self.first(x)))
            return functional.relu(inner + self.skip(x))

    def resnet() -> nn.Module:
        stages = [Residual(32, 32, 1), Residual(32, 64, 2), Residual(64, 64, 1)]
        stages.append(Residual(64, 128, 2))
        pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))
        return nn.Sequential(convolution(3, 32), nn.ReLU(), *stages, pool)

    def mlp() -> nn.Module:
        layers = [m for _ in range(8) for m in (nn.Linear(512, 512), nn.ReLU())]
        return nn.Sequential(*layers, nn.Linear(512, 10))

    return {
        "mlp": lambda: (mlp(), torch.randn(8192, 512), torch.randint(0, 10, (8192,))),
        "gpt": lambda: (
            Gpt(512, 256, 4, 256),
            torch.randint(0, 512, (8, 256)),
            torch.randint(0, 512, (8 * 256,)),
        ),
        "resnet": lambda: (resnet(), torch.randn(32, 3, 64, 64), torch.randint(0, 10, (32,))),
    }


def memory(what: str) -> float:
    """MiB of this process: VmRSS now, or VmHWM, the peak since it was last reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1024


def worker(name: str, backend: str) -> None:
    import torch

    import gex

    torch.manual_seed(0)
    model, x, y = models()[name]()
    forward = model if backend == "eager" else torch.compile(model, backend=backend)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step() -> float:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(forward(x), y)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    for _ in range(WARM_UP):
        loss = step()
    optimizer.zero_grad()
    gc.collect()
    gex.trim()
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    for _ in range(STEPS):
        loss = step()
    print("RESULT " + json.dumps({"peak": memory("VmHWM") - before, "loss": loss}))


def measure(name: str, backend: str) -> dict[str, float]:
    environment = dict(os.environ, MALLOC_TRIM_THRESHOLD_="0", MALLOC_MMAP_THRESHOLD_="65536")
    command = [sys.executable, __file__, "--worker", name, backend]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            return json.loads(line[7:])
    raise RuntimeError(f"{name} with {backend} failed:\n{done.stderr}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--models", default="mlp,gpt,resnet")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    add_option(parser)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(*arguments.worker)
        return 0
    print(f"{'training step':<14}{'eager MiB':>11}{'gex MiB':>11}{'gex/eager':>11}")
    rows = {}
    for name in arguments.models.split(","):
        eager, compiled = (measure(name, backend) for backend in BACKENDS)
        if abs(eager["loss"] - compiled["loss"]) > 1e-3 * abs(eager["loss"]):
            raise RuntimeError(f"{name}: loss {compiled['loss']}, eager mode {eager['loss']}")
        peaks = f"{eager['peak']:>11.1f}{compiled['peak']:>11.1f}"
        print(f"{name:<14}{peaks}{compiled['peak'] / eager['peak']:>11.2f}", flush=True)
        rows[name] = {"eager": eager["peak"], "gex": compiled["peak"]}
    if arguments.results:
        record(arguments.results, "train_memory", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
