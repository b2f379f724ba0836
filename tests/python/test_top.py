"""`gex top`: what a running process writes, and what the command shows of it."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import textwrap
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GEX = pathlib.Path(os.environ.get("GEX_BUILD_DIR", ROOT / "build")) / "bin" / "gex"

SCRIPT = """
    import sys, time, torch
    compiled = torch.compile(lambda x: torch.sin(x) + 1, backend="gex")
    compiled(torch.ones(1000))
    print("ready", flush=True)
    end = time.time() + 60
    while time.time() < end:
        compiled(torch.ones(1000))
        time.sleep(0.002)
"""


def shown(folder: pathlib.Path) -> str:
    done = subprocess.run(
        [GEX, "top", "--once"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "XDG_RUNTIME_DIR": str(folder), "GEX_PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_running_process_is_shown_while_it_asks_for_it(tmp_path: pathlib.Path) -> None:
    assert "no process with GEX_TOP=1" in shown(tmp_path)
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path), "GEX_TOP": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            rows: list[list[str]] = []
            end = time.monotonic() + 30
            while time.monotonic() < end:  # until it has written twice
                rows = [line.split() for line in shown(tmp_path).splitlines()]
                rows = [row for row in rows if row[0] == str(process.pid)]
                if rows and rows[0][3] != "-" and rows[0][4] != "-":
                    break
                time.sleep(0.2)
            (row,) = rows
            assert int(row[2]) > 1 and float(row[3]) > 0
            assert 0 < float(row[4]) <= float(row[5])
        finally:
            process.kill()


def test_nothing_is_written_unless_asked_for(tmp_path: pathlib.Path) -> None:
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    environment.pop("GEX_TOP", None)
    subprocess.run(
        [sys.executable, "-c", "import gex, time; time.sleep(1.5)"], env=environment, check=True
    )
    assert list(tmp_path.iterdir()) == []
