"""The same results with the code and the kernels of each x86-64 level."""

from __future__ import annotations

import pathlib
import platform
import subprocess
import sys

import pytest

from processes import run

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="levels of x86-64")

PROGRAM = """
import sys
import gex, torch
from torch import nn
torch.manual_seed(0)
conv = nn.Sequential(
    nn.Conv2d(3, 20, 3, 2, 1), nn.BatchNorm2d(20), nn.Hardswish(),
    nn.Conv2d(20, 20, 3, padding=1, groups=20), nn.Conv2d(20, 37, 1), nn.GELU(),
).eval()
block = nn.TransformerEncoderLayer(36, 3, 50, 0.0, batch_first=True).eval()
cases = [(conv, torch.randn(2, 3, 17, 19)), (block, torch.randn(2, 21, 36))]
cases += [(nn.LSTM(9, 13).eval(), torch.randn(5, 2, 9))]
cases += [(nn.Linear(50, 30).to(t), torch.randn(n, 50, dtype=t))
          for t in (torch.bfloat16, torch.float16, torch.float64) for n in (1, 11)]
with torch.no_grad():
    for model, x in cases:
        compiled = gex.compile(model, (x,))
        for a, b in zip(torch.utils._pytree.tree_leaves(compiled(x)),
                        torch.utils._pytree.tree_leaves(model(x))):
            near = 2e-2 if a.dtype in (torch.bfloat16, torch.float16) else 1e-4
            torch.testing.assert_close(a, b, rtol=near, atol=near)
print(len(cases), "models agree")
"""


@pytest.mark.parametrize("level", ["v2", "v3", "v4"])
def test_models(level: str, tmp_path: pathlib.Path) -> None:
    printed = run(sys.executable, "-c", PROGRAM, cwd=tmp_path, GEX_CPU=level)
    assert printed == "9 models agree\n"


def test_unknown_level(tmp_path: pathlib.Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env={"GEX_CPU": "v9", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "GEX_CPU is 'v9': set it to v2, v3 or v4" in done.stderr
