"""Kernels by name and line in perf and gdb, ranges for NVIDIA's tools, progress, notebooks."""

from __future__ import annotations

import io
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import time

import pytest
import torch

import gex
from gex.report import progress

MODEL = """
import torch
def model(x):
    return torch.softmax(torch.relu(x @ x), -1)
torch.compile(model, backend="gex")(torch.ones(64, 64))
"""

# What gdb reads: the list behind __jit_debug_descriptor, each entry with an ELF file of symbols.
LIST = """
import ctypes
class Entry(ctypes.Structure): pass
Entry._fields_ = [("next", ctypes.POINTER(Entry)), ("previous", ctypes.POINTER(Entry)),
                  ("file", ctypes.c_void_p), ("bytes", ctypes.c_uint64)]
class Descriptor(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("action", ctypes.c_uint32),
                ("relevant", ctypes.POINTER(Entry)), ("first", ctypes.POINTER(Entry))]
library = next(line.split()[-1] for line in open("/proc/self/maps") if "libgex_llvm.so" in line)
descriptor = Descriptor.in_dll(ctypes.CDLL(library), "__jit_debug_descriptor")
def files():
    entry, found = descriptor.first, []
    while entry:
        found.append(ctypes.string_at(entry.contents.file, entry.contents.bytes))
        entry = entry.contents.next
    return found
assert descriptor.version == 1
open(FOLDER + "/symbols", "wb").write(b"".join(files()))
for k, text in enumerate(files()): open(f"{FOLDER}/{k}.o", "wb").write(text)
count = len(files())
torch._dynamo.reset()
import gc; gc.collect()
"""


def run(script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done


def records_of(file: pathlib.Path) -> tuple[dict[str, int], dict[int, list[tuple[int, str]]]]:
    """Bytes of code by name; lines of code by its address: offset's line and file."""
    data = file.read_bytes()
    magic, version, header = struct.unpack_from("III", data)
    assert (magic, version, header) == (0x4A695444, 1, 40)
    assert file.name == f"jit-{struct.unpack_from('I', data, 20)[0]}.dump"
    codes: dict[str, int] = {}
    lines: dict[int, list[tuple[int, str]]] = {}
    at = header
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        if kind == 2:
            address, count = struct.unpack_from("<QQ", data, at + 16)
            entry, found = at + 32, []
            for _ in range(count):
                place, line, _ = struct.unpack_from("<QII", data, entry)
                end = data.index(b"\0", entry + 16)
                assert place >= address
                found.append((line, data[entry + 16 : end].decode()))
                entry = end + 1
            assert entry == at + size
            lines[address] = found
        else:
            address, code_address, code = struct.unpack_from("<QQQ", data, at + 24)
            name = data[at + 56 : data.index(b"\0", at + 56)]
            assert kind == 0 and address == code_address and address in lines
            assert size == 56 + len(name) + 1 + code
            codes[name.decode()] = code
        at += size
    return codes, lines


def test_perf_gets_names_code_and_lines_of_kernels(tmp_path: pathlib.Path) -> None:
    run(MODEL, GEX_JITDUMP=str(tmp_path))
    (file,) = tmp_path.glob("jit-*.dump")
    codes, lines = records_of(file)
    assert set(codes) == {"gex::matmul epilogue", "gex::reduce_max+sub+exp+reduce_sum+div"}
    assert all(code > 50 for code in codes.values())
    texts = [
        {pathlib.Path(name).read_text().splitlines()[line - 1].strip() for line, name in of_code}
        for of_code in lines.values()
    ]
    (softmax,) = (text for text in texts if "combine max" in text)
    assert any(re.match(r"v\d+ = exp ", line) for line in softmax)
    assert any(line.startswith("store b1[") for line in softmax)


def test_gdb_stops_at_lines_of_the_loop_ir(tmp_path: pathlib.Path) -> None:
    gdb = shutil.which("gdb")
    if gdb is None:
        pytest.skip("no gdb here: apt-get install gdb")
    name = "gex::reduce_max+sub+exp+reduce_sum+div"
    commands = ["set breakpoint pending on", f"break '{name}'", "run", "backtrace 1", "list"]
    words = [word for command in commands for word in ("-ex", command)]
    done = subprocess.run(
        [gdb, "-q", "-batch", *words, "--args", sys.executable, "-c", MODEL],
        env={**os.environ, "GEX_JITDUMP": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    if "ptrace" in done.stderr and name not in done.stdout.split("Starting program", 1)[-1]:
        pytest.skip("gdb may not trace processes here")
    assert f"{name} () at {tmp_path}/loops/" in done.stdout, done.stdout + done.stderr
    assert "stage reduce" in done.stdout


def test_a_folder_that_cannot_be_written_is_told(tmp_path: pathlib.Path) -> None:
    done = run(MODEL, GEX_JITDUMP=str(tmp_path / "missing"))
    assert "GEX_JITDUMP: " in done.stderr and "No such file or directory" in done.stderr


def test_gdb_gets_names_of_kernels(tmp_path: pathlib.Path) -> None:
    run(MODEL + f"FOLDER = {str(tmp_path)!r}" + LIST)
    symbols = (tmp_path / "symbols").read_bytes()
    assert b"gex::matmul epilogue\0" in symbols
    assert b"gex::reduce_max+sub+exp+reduce_sum+div\0" in symbols
    nm = shutil.which("nm")
    if nm is not None:
        text = subprocess.check_output(
            [nm, "--print-size", str(tmp_path / "0.o")], text=True, stderr=subprocess.STDOUT
        )
        assert " T gex::" in text


NVTX = """
#include <stdio.h>
int nvtxRangePushA(const char* name) { return fprintf(stderr, "push %s\\n", name), 0; }
int nvtxRangePop(void) { return fprintf(stderr, "pop\\n"), 0; }
"""


def test_nvidias_tools_get_ranges_only_where_one_runs(tmp_path: pathlib.Path) -> None:
    (tmp_path / "nvtx.c").write_text(NVTX)
    library = tmp_path / "libnvToolsExt.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "nvtx.c"], check=True)
    folder = {"GEX_CUDA_LIBRARY_PATH": str(tmp_path)}
    watched = run(MODEL, NVTX_INJECTION64_PATH="tool", **folder).stderr.splitlines()
    assert [line for line in watched if line.startswith(("push", "pop"))] == ["push graph_1", "pop"]
    assert "push" not in run(MODEL, **folder).stderr


ITT = """
#include <stdio.h>
typedef struct { unsigned long long numbers[3]; } id;
void* __itt_domain_create(const char* name) { return (void*)name; }
void* __itt_string_handle_create(const char* name) { return (void*)name; }
void __itt_task_begin(const void* domain, id task, id parent, void* name) {
  fprintf(stderr, "begin %s %s %llu\\n", (const char*)domain, (const char*)name, task.numbers[2] + parent.numbers[0]);
}
void __itt_task_end(const void* domain) { fprintf(stderr, "end %s\\n", (const char*)domain); }
"""  # noqa: E501


def test_vtune_gets_ranges_only_where_it_runs(tmp_path: pathlib.Path) -> None:
    (tmp_path / "itt.c").write_text(ITT)
    library = tmp_path / "libittnotify_collector.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "itt.c"], check=True)
    watched = run(MODEL, INTEL_LIBITTNOTIFY64=str(library)).stderr.splitlines()
    found = [line for line in watched if line.startswith(("begin gex", "end gex"))]
    assert found == ["begin gex graph_1 0", "end gex"]
    assert "begin gex" not in run(MODEL).stderr


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("terminal", [True, False])
def test_long_compiles_tell_what_they_do_on_a_terminal(
    terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    monkeypatch.setattr(progress, "_FIRST_AFTER", 0.01)
    with progress.Activity("graph_7") as activity:
        activity.doing("make engine")
        time.sleep(0.2)
    text = written.getvalue()
    if terminal:
        assert "gex: graph_7: make engine, 0 s" in text
        assert text.endswith("\r\x1b[K")  # nothing stays
    else:
        assert text == ""


def test_short_compiles_show_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    written = Terminal()
    monkeypatch.setattr(sys, "stderr", written)
    with progress.Activity("graph_8") as activity:
        activity.doing("make engine")
    assert written.getvalue() == ""


def test_notebooks_show_graphs_and_explanations() -> None:
    compiled = torch.compile(lambda x: torch.relu(x) + 1, backend="gex")
    explanation = gex.explain(compiled, torch.ones(3))
    assert "native nodes" in explanation._repr_html_()
    assert "native nodes" in explanation.graphs[0]._repr_html_()
    graph = gex.Graph.parse(explanation.graphs[0].runner.text("graph"))
    shown = graph._repr_html_()
    assert shown.startswith("<pre>") and "relu" in shown and "->" not in shown
