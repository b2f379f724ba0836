"""docs/architecture.md: every folder is in the tree, and the walk of a call is what happens."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()

CALLS = """
import sys
import torch

model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()).eval()
compiled = torch.compile(model, backend="npugraph_ex")


def watch(frame, event, argument):
    name = frame.f_code.co_filename.replace("\\\\", "/")
    if "/gex/" in name:
        print(call, "python/gex/" + name.rpartition("/gex/")[2])


with torch.no_grad():
    for call in range(2):
        sys.setprofile(watch)
        compiled(torch.ones(2, 8))
        sys.setprofile(None)
"""


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


def lines_of_tree() -> dict[str, str]:
    """Top folder -> what its lines say."""
    found: dict[str, str] = {}
    for line in re.findall(r"^    (.+)$", section("The tree"), re.MULTILINE):
        if line[0] != " ":
            folder, line = line.split(maxsplit=1)
            found[folder] = ""
        found[folder] += " " + line.strip()
    return found


def folders(top: str) -> list[str]:
    listed = subprocess.check_output(["git", "ls-files", top], cwd=ROOT, text=True).splitlines()
    parents = {p.as_posix() for name in listed for p in pathlib.PurePosixPath(name).parents}
    return sorted(p for p in parents if p.startswith(f"{top}/"))


def test_every_folder_is_in_the_tree() -> None:
    tree = lines_of_tree()
    missing = []
    for folder in [*folders("src"), "python/gex", *folders("python/gex")]:
        top = "/".join(folder.split("/")[:2])
        name = "" if folder == top else folder.rpartition("/")[2] + "/"
        if top not in tree or not re.search(rf"(?<![\w/]){re.escape(name)}", tree[top]):
            missing.append(folder)
    assert missing == []


def test_every_top_folder_is_in_the_tree() -> None:
    listed = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).split("\n")
    top = {name.split("/")[0] for name in listed if "/" in name and not name.startswith(".")}
    tree = section("The tree")
    assert [name for name in sorted(top) if not re.search(rf"\b{name}\b", tree)] == []


def test_folders_of_the_tree_exist() -> None:
    tree = lines_of_tree()
    assert [folder for folder in tree if not (ROOT / folder).is_dir()] == []
    for top, text in tree.items():
        known = {name.rpartition("/")[2] for name in folders(top)}
        named = {name for name in re.findall(r"(?<![\w/.])(\w+)/(?=[\s,;:)]|$)", text)}
        assert named <= known, (top, named - known)


def test_files_named_on_the_page_exist() -> None:
    named = re.findall(r"`((?:src|python|scripts|tests|docs)/[\w/.]+)`", PAGE)
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_walk_names_the_python_files_of_both_calls_in_order() -> None:
    done = subprocess.run([sys.executable, "-c", CALLS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    passed = [line.split(" ", 1) for line in done.stdout.splitlines()]
    walk = section("The path of a call").split("Second call:")
    for call, text in enumerate(walk):
        named = re.findall(r"`(python/gex/[\w/]+[.]py)`", text)
        order = [file for number, file in passed if number == str(call)]
        first = [order.index(name) if name in order else -1 for name in named]
        assert named and -1 not in first and first == sorted(first), (named, first)
