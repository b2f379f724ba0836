"""Each target runs the passes that its kernels need."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import fake_gpu

ROOT = Path(__file__).resolve().parents[2]
GEX = Path(os.environ.get("GEX_BUILD_DIR", ROOT / "build")) / "bin" / "gex"

INTEGERS = """graph main(%a: u8[4, 8], %b: u8[8, 6]) -> (f32[4, 6]) {
  %s = full() {dtype = f32, value = 0.5, shape = []} : f32[]
  %z = full() {dtype = i32, value = 3.0, shape = []} : i32[]
  %x = dequantise(%a, %s, %z) : f32[4, 8]
  %w = dequantise(%b, %s, %z) : f32[8, 6]
  %y = matmul(%x, %w) : f32[4, 6]
  return %y
}
"""


@pytest.mark.parametrize(("target", "products"), [("cpu", 1), ("cuda:0", 0)])
def test_passes_for_kernels_that_a_target_lacks_do_not_run(
    tmp_path: Path, target: str, products: int
) -> None:
    graph = tmp_path / "integers.gex"
    graph.write_text(INTEGERS)
    text = subprocess.check_output(
        [GEX, "dump", graph, f"--target={target}"], env=fake_gpu.environment(tmp_path), text=True
    )
    assert text.count("integer_matmul(") == products
    assert text.count("quantised_matmul(") == 1 - products  # of few rows: CUDA has these
