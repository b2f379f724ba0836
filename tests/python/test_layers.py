"""Each layer is a library (scripts/layers.cmake): a program has inside it only those it links."""

from __future__ import annotations

import os
import pathlib
import re
import shutil

import pytest

from processes import run

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("GEX_BUILD_DIR", ROOT / "build"))
LAYERS = BUILD / "lib" / "layers"
EXAMPLES = ROOT / "examples" / "layers"

pytestmark = pytest.mark.skipif(
    not (BUILD / "lib" / "libgex.so").exists() or shutil.which("g++") is None,
    reason="libgex is not built, or there is no g++",
)

COMPILER = {
    "store",
    "backend",
    "lower",
    "options",
    "emit",
    "compile",
    "deploy",
    "report",
    "fx",
    "onnx",
}
GRAPHS = {"ir", "ops", "interp", "passes"}
RUNNING = {"plan", "runtime", "execute", "kernels", "codes", "files", "bounds", "run", "nvidia"}

GRAPH = """symbols n
graph main(%x: f32[n, 2]) -> (f32[n, 2]) {
  %y = exp(%x) : f32[n, 2]
  %unused = neg(%x) : f32[n, 2]
  %z = log1p(%y) : f32[n, 2]
  return %z
}
"""


@pytest.fixture(scope="module")
def archives() -> pathlib.Path:
    run("ninja", "-C", BUILD, "gex_layers", cwd=ROOT)
    return LAYERS


@pytest.fixture(scope="module")
def programs(archives: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The examples, built as a user does: against an installed engine."""
    folder = tmp_path_factory.mktemp("layers")
    for words in ([], ["--component", "layers"]):
        run("cmake", "--install", BUILD, "--prefix", folder / "prefix", *words, cwd=ROOT)
    run(
        "cmake", "-S", EXAMPLES, "-B", "out", f"-DCMAKE_PREFIX_PATH={folder / 'prefix'}", cwd=folder
    )
    run("cmake", "--build", "out", cwd=folder)
    return folder / "out"


def needs() -> dict[str, list[str]]:
    """The layers from the bottom up, and the layers that each of them may use."""
    lines = (LAYERS / "needs.txt").read_text().splitlines()
    table = {line.split(":")[0]: line.split(": ")[1].split(";") for line in lines}
    return {name: [need for need in needed if need in table] for name, needed in table.items()}


def symbols(archive: pathlib.Path) -> tuple[set[str], set[str]]:
    """What the files of an archive define, and what they use of the engine without defining it."""
    defined, used = set(), set()
    for line in run("nm", "-P", archive, cwd=ROOT).splitlines():
        words = line.split()
        if len(words) < 2 or not re.match(r"_Z\w*3gex", words[0]):
            continue
        (used if words[1] == "U" else defined).add(words[0])
    return defined, used - defined


def test_layers_need_only_lower_ones() -> None:
    below: set[str] = set()
    for name, needed in needs().items():
        assert set(needed) <= below, f"{name} needs {sorted(set(needed) - below)}"
        below.add(name)


def test_a_layer_links_with_what_it_says_it_needs(archives: pathlib.Path) -> None:
    table = needs()
    known = {name: symbols(archives / f"libgex_{name}.a") for name in table}
    assert len(known["ir"][0]) > 100 and len(known["passes"][1]) > 20
    for name, needed in table.items():
        reachable = set(needed)
        for need in reversed(table):
            if need in reachable:
                reachable |= set(table[need])
        missing = known[name][1].difference(*(known[need][0] for need in reachable))
        assert not missing, f"{name} does not say what it needs for {sorted(missing)[:3]}"


def layers_inside(program: pathlib.Path) -> set[str]:
    """By the linker's map, which lists the files of archives that were taken."""
    return set(
        re.findall(r"libgex_(\w+)\.a\(", program.with_name(program.name + ".map").read_text())
    )


def test_optimiser_has_neither_backend_nor_runtime(
    programs: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "m.gex").write_text(GRAPH)
    out = run(programs / "gex-opt", "m.gex", cwd=tmp_path)
    assert "exp(%x)" in out and "neg" not in out
    out = run(programs / "gex-opt", "m.gex", "cse", cwd=tmp_path)
    assert "neg" in out
    inside = layers_inside(programs / "gex-opt")
    assert inside >= GRAPHS
    assert not inside & (COMPILER | RUNNING)


def test_runner_has_neither_graphs_nor_compiler(
    programs: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "m.gex").write_text(GRAPH)
    run(BUILD / "bin" / "gex", "compile", "m.gex", "-o", "m.gexe", "--cpu=v2,v3,v4", cwd=tmp_path)
    out = run(programs / "run_artefact", "m.gexe", "3", cwd=tmp_path)
    assert out.endswith(" 0.693147\n"), out
    inside = layers_inside(programs / "run_artefact")
    assert {"run", "runtime", "program", "plan"} <= inside
    assert not inside & (COMPILER | GRAPHS)
