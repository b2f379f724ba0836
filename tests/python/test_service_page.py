"""docs/service.md: every command of the page, in order, in one folder."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("GEX_BUILD_DIR", ROOT / "build"))
PAGE, CHINESE = ROOT / "docs" / "service.md", ROOT / "docs" / "service.zh.md"


def blocks(page: pathlib.Path) -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```$", page.read_text(), re.M | re.S)


def test_the_chinese_page_has_the_same_commands() -> None:
    assert blocks(CHINESE) == blocks(PAGE)
    for mark in ("## ", "| "):
        pattern = re.compile("^" + re.escape(mark), re.M)
        assert len(pattern.findall(CHINESE.read_text())) == len(pattern.findall(PAGE.read_text()))


@pytest.mark.skipif(not (BUILD / "bin" / "gex").exists(), reason="build/bin/gex is not built")
@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_every_command_of_the_page_works(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("onnx")
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "gex").symlink_to(BUILD / "bin" / "gex")
    (programs / "python3").symlink_to(sys.executable)
    folder = tmp_path / "work"
    folder.mkdir()
    text = "".join(blocks(PAGE)).replace("8123", str(free_port()))
    text = text.replace("python3 ", f"{sys.executable} ")
    try:
        done = subprocess.run(
            ["bash", "-e", "-u", "-o", "pipefail", "-c", text],
            cwd=folder,
            env={
                **os.environ,
                "PATH": f"{programs}:{os.environ['PATH']}",
                "PYTHONPATH": str(BUILD / "python"),
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert (folder / "results" / "scores.npy").exists()
        assert 'gex_requests_total{model="model",status="200"} 1' in done.stdout
        assert "TensorInfo(name='image'" in done.stdout
    finally:
        stop(folder / "serve.pid")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def stop(pid_file: pathlib.Path) -> None:
    """The server of a page that failed half-way."""
    if not pid_file.exists():
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(pid_file.read_text()), signal.SIGKILL)
