"""`gex doctor` and `gex completion`: what they find, and what shells make of it."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GEX = pathlib.Path(os.environ.get("GEX_BUILD_DIR", ROOT / "build")) / "bin" / "gex"


def command(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [GEX, *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environment},
    )


def test_the_doctor_lists_what_it_finds_and_runs_a_function() -> None:
    done = command("doctor", GEX_PYTHON=sys.executable)
    assert done.returncode == 0, done.stdout + done.stderr
    marks = {line.split()[1]: line.split()[0] for line in done.stdout.splitlines()[1:]}
    for what in ("processor", "LLVM", "package", "PyTorch", "backends"):
        assert marks[what] == "ok", done.stdout
    assert "gives the same results as PyTorch" in done.stdout


def test_the_doctor_says_what_is_wrong(tmp_path: pathlib.Path) -> None:
    done = command("doctor", "--no-python", GEX_CACHE_DIR=str(tmp_path / "cache"))
    assert done.returncode == 0 and "0 entries" in done.stdout
    graph = tmp_path / "in.gex"
    graph.write_text(
        "graph main(%x: f32[4]) -> (f32[4]) {\n  %y = neg(%x) : f32[4]\n  return %y\n}\n"
    )
    cache = str(tmp_path / "cache")
    assert command("run", str(graph), GEX_CACHE_DIR=cache).returncode == 0
    kept = [path for path in pathlib.Path(cache).glob("*/*/*") if path.is_file()]
    assert kept
    for path in kept:
        path.write_bytes(path.read_bytes()[:-8])
    done = command("doctor", "--no-python", GEX_CACHE_DIR=cache)
    assert done.returncode == 1
    assert "!!" in done.stdout and "gex cache clear" in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_read_the_completion(shell: str, tmp_path: pathlib.Path) -> None:
    text = command("completion", shell).stdout
    assert "report" in text and "compare" in text
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "completion"
    script.write_text(text)
    done = subprocess.run([program, "-n", str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_bash_completes_commands_and_options(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "completion"
    script.write_text(command("completion", "bash").stdout)
    ask = (
        f". {script}; COMP_WORDS=(gex {{}}); COMP_CWORD=$((${{#COMP_WORDS[@]}}-1)); _gex; "
        'echo "${COMPREPLY[*]}"'
    )

    def completed(words: str) -> list[str]:
        done = subprocess.run(
            ["bash", "-c", ask.replace("{}", words)], capture_output=True, text=True, check=True
        )
        return done.stdout.split()

    assert completed("rep") == ["report"]
    assert completed("report --comp") == ["--compare"]


def test_an_unknown_shell_is_refused_with_a_suggestion() -> None:
    done = command("completion", "bsh")
    assert done.returncode == 1 and "did you mean 'bash'" in done.stderr
