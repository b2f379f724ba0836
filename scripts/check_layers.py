"""Include directions: a folder of C++ may include what scripts/layers.txt names for it.

check_layers.py [--show] [ROOT]: --show prints the table of the current tree.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import sys
import textwrap
from collections import defaultdict

CHECKED = ("src", "include", "tools")
SUFFIXES = {".cpp", ".cc", ".c", ".cu", ".hpp", ".h", ".cuh", ".def", ".inc"}
# Where the build looks for a header, beside the folder of the file that includes it.
SEARCHED = ("src", "include", "tools", ".")
# Written by the build, so not in the tree.
GENERATED = {"gex/es/ops.hpp": "include/gex/es"}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:<([^>\n]+)>|"([^"\n]+)"|(\w+))', re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)

Table = dict[str, dict[str, bool]]  # folder -> allowed folder or file -> marked as pointing up


def read_table(path: pathlib.Path) -> tuple[Table, list[str]]:
    table: Table = {}
    problems: list[str] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        text = line.split("#")[0].strip()
        if not text:
            continue
        if line[0].isspace() and table:
            folder, names = list(table)[-1], text
        else:
            folder, colon, names = (part.strip() for part in text.partition(":"))
            if not colon or not folder or folder in table:
                problems.append(f"{path.name}:{number}: write 'folder: allowed folders', once each")
                continue
            table[folder] = {}
        table[folder] |= {name.lstrip("!"): name.startswith("!") for name in names.split()}
    return table, problems


def check_table(table: Table, folders: set[str], root: pathlib.Path) -> list[str]:
    """Lines without an existing folder, and allowed folders whose line comes later."""
    problems = []
    order = {folder: i for i, folder in enumerate(table)}
    for folder in sorted(folders - set(table)):
        problems.append(f"layers.txt: no line for {folder}")
    for folder, allowed in table.items():
        if folder not in folders:
            problems.append(f"layers.txt: {folder} has no sources: delete its line")
        for name, marked in allowed.items():
            target = name if name in order else os.path.dirname(name)
            if not (root / name).exists():
                problems.append(f"layers.txt: {folder} allows {name}, which does not exist")
            elif (order.get(target, -1) > order[folder]) != marked:
                way = "is below it: write !" if not marked else "is above it: write "
                problems.append(f"layers.txt: {folder} allows {name}, which {way}{name}")
    return problems


def resolve(name: str, quoted: bool, path: pathlib.Path, root: pathlib.Path) -> str | None:
    """The file of the project that an include refers to, relative to root."""
    here = [path.parent] if quoted else []
    for folder in [*here, *(root / s for s in SEARCHED)]:
        target = pathlib.Path(os.path.normpath(folder / name))
        if target.is_file() and target.is_relative_to(root):
            return target.relative_to(root).as_posix()
    if name in GENERATED:
        return f"{GENERATED[name]}/{pathlib.Path(name).name}"
    return None


def includes(root: pathlib.Path) -> tuple[dict[str, list[tuple[str, str]]], list[str]]:
    """For each folder its (including file, included file), and includes that can't be resolved."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    problems = []
    for path in sorted(p for top in CHECKED for p in (root / top).rglob("*")):
        if path.suffix not in SUFFIXES or not path.is_file():
            continue
        source = path.relative_to(root).as_posix()
        targets = found[os.path.dirname(source)]
        text = COMMENT.sub(lambda m: "\n" * m.group().count("\n"), path.read_text())
        for angled, quoted, macro in INCLUDE.findall(text):
            target = resolve(angled or quoted, bool(quoted), path, root)
            if target is not None:
                targets.append((source, target))
            elif quoted:
                problems.append(
                    f'{source}: "{quoted}" is not a file of the project: use <> or fix it'
                )
            elif macro:
                problems.append(f"{source}: #include {macro}: name the file, not a macro")
    return found, problems


def check(root: pathlib.Path) -> list[str]:
    table, problems = read_table(root / "scripts" / "layers.txt")
    found, unknown = includes(root)
    problems += check_table(table, set(found), root) + unknown
    for folder, pairs in sorted(found.items()):
        allowed = table.get(folder, {})
        used = set()
        for source, target in pairs:
            above = os.path.dirname(target)
            if above == folder:
                continue
            name = above if above in allowed else target
            used.add(name)
            if name not in allowed:
                problems.append(f"{source}: {folder} may not include {target} (scripts/layers.txt)")
        for name in sorted(set(allowed) - used):
            problems.append(f"layers.txt: nothing in {folder} includes {name} any more: delete it")
    return problems


def show(root: pathlib.Path) -> None:
    table, _ = read_table(root / "scripts" / "layers.txt")
    order = {folder: i for i, folder in enumerate(table)}
    found, _ = includes(root)
    for folder in sorted(found, key=lambda f: (order.get(f, len(order)), f)):
        names = set()
        for _, target in found[folder]:
            above = os.path.dirname(target)
            if order.get(above, -1) > order.get(folder, len(order)):
                names.add("!" + target)  # a cycle: each file by name
            elif above != folder:
                names.add(above)
        words = f"{folder}: {' '.join(sorted(names, key=lambda n: (n[0] == '!', n)))}".rstrip()
        print(textwrap.fill(words, 110, subsequent_indent="  ", break_on_hyphens=False))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", nargs="?", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent)  # fmt: skip
    parser.add_argument("--show", action="store_true", help="print the table of the tree as it is")
    arguments = parser.parse_args()
    if arguments.show:
        show(arguments.root.resolve())
        return 0
    problems = check(arguments.root.resolve())
    print("\n".join(problems) if problems else "layers: every include is allowed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
