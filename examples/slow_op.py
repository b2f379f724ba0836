"""A small classifier with one slow operation, for docs/tour.md.

python examples/slow_op.py slow.html            # the page shows what is slow
python examples/slow_op.py --fixed fixed.html   # the same without it
gex report --compare slow.html fixed.html -o difference.html
"""

from __future__ import annotations

import argparse
import warnings

import torch
from torch import nn

import gex


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Classifier(nn.Module):
    def __init__(self, width: int = 256, classes: int = 512, fixed: bool = False) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(6))
        self.head = nn.Parameter(torch.randn(classes, width))
        self.scale = torch.linalg.matrix_norm(self.head.detach(), 2) if fixed else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        # The largest singular value of a weight that never changes, in every call.
        scale = torch.linalg.matrix_norm(self.head, 2) if self.scale is None else self.scale
        return (x @ (self.head / scale).T).softmax(-1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("page", help="where to write the report")
    parser.add_argument("--fixed", action="store_true", help="the norm is computed once")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    warnings.simplefilter("ignore", gex.FallbackWarning)  # the page shows the reason
    model = torch.compile(Classifier(fixed=arguments.fixed).eval(), backend="gex")
    x = torch.randn(64, 256)
    title = "classifier, fixed" if arguments.fixed else "classifier"
    with torch.no_grad():
        for _ in range(10):  # code for these sizes is made after a few calls
            model(x)
        with gex.report(arguments.page, title=title) as recording:
            for _ in range(20):
                model(x)
    print(recording.report)


if __name__ == "__main__":
    main()
