"""scripts/setup and scripts/build, with stand-ins for the tools that they call."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# Each writes its name and arguments into the file calls, and fails where a file fail-NAME lies.
TOOL = """#!/bin/bash
echo "$(basename "$0") $*" >> "$TREE/calls"
{work}
if [ -e "$TREE/fail-$(basename "$0")" ]; then exit 130; fi
"""
CMAKE = """
while [ $# -gt 0 ]; do if [ "$1" = -B ]; then folder=$2; fi; shift; done
mkdir -p "$folder/CMakeFiles" && echo half > "$folder/CMakeCache.txt"
[ -e "$TREE/fail-cmake" ] || echo done > "$folder/build.ninja"
"""
# `python3 -m venv --clear DIR`: a folder whose python is this script again.
PYTHON = """
case "$*" in
  "-m venv"*) folder=${@: -1}; rm -rf "$folder"; mkdir -p "$folder/bin" "$folder/site"
              cp "$0" "$folder/bin/python"; cp "$0" "$folder/bin/python3" ;;
  *purelib*) echo "$TREE/.venv/site" ;;
  *get_paths*) echo "$TREE" ;;
esac
"""


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    for name in ("requirements.txt", "requirements-demo.txt"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "Python.h").touch()
    tools = tmp_path / "tools"
    tools.mkdir()
    work = {
        "cmake": CMAKE,
        "python3": PYTHON,
        "ninja": "",
        "apt-get": "",
        "dpkg": "",
        "sudo": '"$@"',
    }
    for name in ("g++", "make", "ccache", *work):
        (tools / name).write_text(TOOL.format(work=work.get(name, "")))
        (tools / name).chmod(0o755)
    return tmp_path


def call(tree: pathlib.Path, *command: str) -> tuple[int, str, list[str]]:
    """The status of a script, what it printed, and the calls it made of tools."""
    path = f"{tree / 'tools'}:/usr/bin:/bin"
    environment = {k: v for k, v in os.environ.items() if k not in ("UNITY", "GEX_VENV")}
    environment |= {"PATH": path, "TREE": str(tree), "PIP_NO_INDEX": "1"}
    (tree / "calls").write_text("")
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr, (tree / "calls").read_text().splitlines()


def fail(tree: pathlib.Path, tool: str) -> pathlib.Path:
    path = tree / f"fail-{tool}"
    path.touch()
    return path


def test_demo_builds_only_what_it_runs(tree: pathlib.Path) -> None:
    status, out, calls = call(tree, "scripts/build", "build", "", "demo")
    assert status == 0, out
    (configure,) = (c for c in calls if c.startswith("cmake "))
    assert "-DGEX_TESTS=OFF" in configure and "-DGEX_UNITY=ON" in configure
    assert calls[-1] == "ninja -C build gex gex_llvm _gex gex_es_ops"

    _, _, calls = call(tree, "scripts/build", "build", "", "demo")
    assert calls == ["ninja -C build gex gex_llvm _gex gex_es_ops"]
    _, _, calls = call(tree, "scripts/build", "build", "")
    assert "-DGEX_TESTS=ON" in calls[0] and calls[1] == "ninja -C build --quiet"
    for scope in ("demo", ""):  # a build for the tests does for the demo
        _, _, calls = call(tree, "scripts/build", "build", "", scope)
        assert len(calls) == 1


def test_interrupted_configuring_starts_over(tree: pathlib.Path) -> None:
    failing = fail(tree, "cmake")
    status, _, calls = call(tree, "scripts/build", "build", "", "demo")
    assert status != 0 and not [c for c in calls if c.startswith("ninja")]
    failing.unlink()
    (tree / "build" / "build.ninja").write_text("half")
    (tree / "build" / "CMakeFiles" / "left").touch()
    status, out, calls = call(tree, "scripts/build", "build", "", "demo")
    assert status == 0, out
    assert [c.split()[0] for c in calls] == ["cmake", "ninja"]
    assert not (tree / "build" / "CMakeFiles" / "left").exists()


def test_folder_configured_by_hand_is_left_alone(tree: pathlib.Path) -> None:
    (tree / "build").mkdir()
    (tree / "build" / "build.ninja").touch()
    for scope in ("demo", ""):
        _, _, calls = call(tree, "scripts/build", "build", "", scope)
        assert [c.split()[0] for c in calls] == ["ninja"]


def test_setup_installs_once_and_the_demo_takes_less(tree: pathlib.Path) -> None:
    status, out, calls = call(tree, "scripts/setup", "demo")
    assert status == 0, out
    assert [c for c in calls if " -m venv --clear .venv" in c]
    (pip,) = (c for c in calls if "pip install" in c)
    assert pip.endswith("-r requirements-demo.txt")
    _, _, calls = call(tree, "scripts/setup", "demo")
    assert not [c for c in calls if "pip install" in c or "-m venv" in c]

    _, _, calls = call(tree, "scripts/setup")
    (pip,) = (c for c in calls if "pip install" in c)
    assert pip.endswith("-r requirements.txt") and not [c for c in calls if "-m venv" in c]
    for scope in ("demo", "all"):
        _, _, calls = call(tree, "scripts/setup", scope)
        assert not [c for c in calls if "pip install" in c]


def test_interrupted_installation_starts_over(tree: pathlib.Path) -> None:
    assert call(tree, "scripts/setup", "demo")[0] == 0
    with (tree / "requirements-demo.txt").open("a") as file:
        file.write("more==1\n")
    python = tree / ".venv" / "bin" / "python"
    good = python.read_text()
    python.write_text("#!/bin/bash\nexit 130\n")  # interrupted in pip
    assert call(tree, "scripts/setup", "demo")[0] != 0
    assert not (tree / ".venv" / "stamp").exists()
    python.write_text(good)
    (tree / ".venv" / "left").touch()
    status, out, calls = call(tree, "scripts/setup", "demo")
    assert status == 0, out
    assert [c for c in calls if " -m venv --clear .venv" in c]
    assert not (tree / ".venv" / "left").exists()


def test_half_made_venv_is_made_again(tree: pathlib.Path) -> None:
    (tree / ".venv" / "bin").mkdir(parents=True)
    (tree / ".venv" / "bin" / "python").touch()
    status, out, _ = call(tree, "scripts/setup", "demo")
    assert status == 0, out
    assert (tree / ".venv" / "stamp").exists()


def test_interrupted_apt_is_finished_first(tree: pathlib.Path) -> None:
    (tree / "Python.h").unlink()  # python3-dev is missing
    dpkg = tree / "tools" / "dpkg"
    dpkg.write_text(dpkg.read_text() + 'if [ "$1" = --audit ]; then echo "half installed"; fi\n')
    status, out, calls = call(tree, "scripts/setup", "demo")
    assert status == 0, out
    named = [c for c in calls if c.startswith(("dpkg", "apt-get"))]
    assert named[0] == "dpkg --audit" and named[1] == "dpkg --configure -a"
    assert " update" in named[2] and " install " in named[3] and "python3-dev" in named[3]


def test_long_command_is_never_silent(tree: pathlib.Path) -> None:
    (tree / "tools" / "sleep").write_text("#!/bin/bash\nexec /bin/sleep 0.05\n")
    (tree / "tools" / "sleep").chmod(0o755)
    script = (ROOT / "scripts" / "heartbeat").read_text()
    assert "sleep 10 " in script  # less than the 15 seconds promised
    status, out, _ = call(tree, "scripts/heartbeat", "work", "/bin/sleep", "0.5")
    assert status == 0 and out.count("work: running for ") >= 2
    assert call(tree, "scripts/heartbeat", "work", "false")[0] == 1
