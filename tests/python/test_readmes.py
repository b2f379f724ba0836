"""The README of each folder: there is one, or one above it names the folder; files in it exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[2]
TOPS = ("src/", "include/", "python/", "tools/", "tests/", "bench/", "scripts/")
# What a README may leave out of the path of a file that is not below its folder.
BASES = ("", "src", "include", "include/gex", "python/gex", "tests/python")
GENERATED = {"include/gex/es/ops.hpp", "python/gex/es/ops.py"}  # by the build
PATH = re.compile(r"[\w./-]+\.(?:cpp|hpp|h|py|def|js|md|txt|cmake)|[\w./-]+/")


def tracked(root: Path) -> set[str]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=root, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(listed.stdout.split("\n")) - {""}


def folders_of(files: set[str]) -> set[str]:
    return {str(parent) for file in files for parent in PurePosixPath(file).parents}


def folders_with_files(files: set[str]) -> set[str]:
    return {str(PurePosixPath(file).parent) for file in files}


def unknown_paths(readme: str, text: str, files: set[str]) -> list[str]:
    """Files and folders that the README names and that do not exist."""
    here = PurePosixPath(readme).parent
    known = {f"/{path}" for path in files | folders_of(files) | GENERATED}
    found = []
    for word in re.findall(r"`([^`\s]+)`", text):
        if not PATH.fullmatch(word):
            continue
        end = "/" + word.rstrip("/")
        below = any(path.startswith(f"/{here}/") and path.endswith(end) for path in known)
        if not below and not any(f"/{base}{end}".replace("//", "/") in known for base in BASES):
            found.append(f"{readme}: `{word}` does not exist")
    return found


def unnamed_folders(readmes: dict[str, str], files: set[str]) -> list[str]:
    """Folders of TOPS without a README that no README above them names."""
    found = []
    for folder in sorted(folders_with_files(files)):
        if not f"{folder}/".startswith(TOPS) or f"{folder}/README.md" in readmes:
            continue
        above = [
            readmes[f"{parent}/README.md"]
            for parent in PurePosixPath(folder).parents
            if f"{parent}/README.md" in readmes and str(parent) != "."
        ]
        name = PurePosixPath(folder).name
        if not any(re.search(rf"\b{re.escape(name)}\b", text) for text in above):
            found.append(f"{folder}: no README says what is in it")
    return found


@pytest.fixture(scope="module")
def files() -> set[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout of git")
    return tracked(ROOT)


def readmes_of(files: set[str]) -> dict[str, str]:
    return {f: (ROOT / f).read_text() for f in sorted(files) if f.endswith("/README.md")}


def test_readmes_name_files_that_exist(files: set[str]) -> None:
    readmes = readmes_of(files)
    assert len(readmes) > 40
    assert [p for f, text in readmes.items() for p in unknown_paths(f, text, files)] == []


def test_every_folder_is_described(files: set[str]) -> None:
    assert unnamed_folders(readmes_of(files), files) == []


def test_wrong_names_and_missing_folders_are_found() -> None:
    files = {"src/a/README.md", "src/a/one.cpp", "src/a/inner/two.cpp", "src/b/three.cpp"}
    text = "`one.cpp`, `two.cpp`, `b/three.cpp` and `four.cpp`; `gone/`"
    assert [line.split("`")[1] for line in unknown_paths("src/a/README.md", text, files)] == [
        "four.cpp",
        "gone/",
    ]
    readmes = {"src/README.md": "a", "src/a/README.md": text}
    assert [line.split(":")[0] for line in unnamed_folders(readmes, files)] == [
        "src/a/inner",
        "src/b",
    ]
