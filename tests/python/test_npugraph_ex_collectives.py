"""Collectives inside compiled graphs, on several processes of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent / "distributed"


def torchrun(script: str, processes: int, backend: str = "npugraph_ex") -> str:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={processes}", str(SCRIPTS / script), backend]
    folders = [str(SCRIPTS.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(folders)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=280, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.parametrize("processes", [2, 4])
def test_case_77_every_collective_is_captured_and_right_at_each_replay(processes: int) -> None:
    out = torchrun("collectives.py", processes)
    assert f"15 collectives on {processes} processes" in out


def test_other_backends_trace_the_same_forms_and_get_the_same_results() -> None:
    assert "15 collectives on 2 processes" in torchrun("collectives.py", 2, "aot_eager")


@pytest.mark.parametrize("processes", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_a_layer_split_by_dtensor_gives_what_the_whole_one_gives(processes: int) -> None:
    pytest.importorskip("transformers")
    out = torchrun("tensor_parallel.py", processes)
    assert f"a layer split over {processes} processes, 1 graph" in out
