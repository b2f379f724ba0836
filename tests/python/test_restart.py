"""Plain torch.compile in a second process: nothing is traced where the folder has the frame."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import processes

TESTS = str(Path(__file__).parent)

MODEL = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(16), nn.Linear(16, 16)

    def forward(self, x):
        return x + torch.tanh(self.linear(self.norm(x)))

class Net(nn.Module):
    def __init__(self, layers=12):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(Block() for _ in range(layers))
        self.negate, self.power = False, 1

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return activation(-x if self.negate else x) * self.power

def activation(x):
    return torch.relu(x)
"""

RUN = """
import json, sys, time, torch
import model as user
arguments = json.loads(sys.argv[1])
if "activation" in arguments:
    user.activation = getattr(torch, arguments["activation"])
model = user.Net().eval()
for name, value in arguments.get("attributes", {}).items():
    setattr(model, name, value)
x = torch.linspace(-1, 1, 16 * arguments.get("rows", 3)).view(-1, 16)
mode = getattr(torch, arguments.get("mode", "no_grad"))()
with mode:
    want = model(x)
    compiled = torch.compile(model, **{"backend": "gex", **arguments.get("compile", {})})
    start = time.process_time()
    got = compiled(x)
    seconds = time.process_time() - start
import gex
torch.testing.assert_close(got, want)
names = [report.name.partition("_")[0] for report in gex.reports()]
print(json.dumps({"seconds": seconds, "names": names}))
"""


class Folder:
    """A folder with the program, and the cache that its runs share."""

    def __init__(self, path: Path, model: str = MODEL) -> None:
        path.mkdir(exist_ok=True)
        self.path, self.cache = path, path / "cache"
        (path / "model.py").write_text(model)
        (path / "run.py").write_text(RUN)

    def run(self, variable: str = "TORCH_NPU_COMPILE_CACHE_DIR", **arguments: Any) -> Any:
        printed = processes.run(
            sys.executable,
            "run.py",
            json.dumps(arguments),
            cwd=self.path,
            **{variable: str(self.cache)},
            PYTHONDONTWRITEBYTECODE="1",
        )
        return json.loads(printed.splitlines()[-1])

    def names(self, **arguments: Any) -> list[str]:
        return self.run(**arguments)["names"]

    def records(self) -> list[Path]:
        return sorted(self.cache.glob("frame/*/compiled_module"))


def test_the_second_process_traces_nothing(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    first, second = folder.run(), folder.run()
    assert (first["names"], second["names"]) == (["graph"], ["cached"])
    assert second["seconds"] < 0.5 * first["seconds"]
    assert folder.names(mode="inference_mode") == ["cached"]


QWEN = """
from tiny_qwen3 import tiny_qwen3
from transformers import Qwen3ForCausalLM

class Net(Qwen3ForCausalLM):
    def __init__(self):
        super().__init__(tiny_qwen3(num_hidden_layers=8))

    def forward(self, x):
        return super().forward(input_ids=(x * 100).abs().long()[:1]).logits
"""


def test_the_first_call_of_a_restarted_language_model(tmp_path: Path) -> None:
    folder = Folder(tmp_path, f"import sys; sys.path.insert(0, {TESTS!r})\n{QWEN}")
    compile = {"backend": "npugraph_ex", "fullgraph": True, "dynamic": True}
    first, second = folder.run(compile=compile), folder.run(compile=compile)
    assert (first["names"], second["names"]) == (["graph"], ["cached"])
    assert second["seconds"] < 0.25 * first["seconds"]


def test_the_other_variable_and_backend(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    compile = {"backend": "npugraph_ex", "dynamic": True, "options": {"capture_limit": 4}}
    assert folder.names(variable="GEX_CACHE_DIR", compile=compile) == ["graph"]
    assert folder.names(variable="GEX_CACHE_DIR", compile=compile) == ["cached"]
    assert folder.names(variable="GEX_CACHE_DIR", compile=compile, rows=5) == ["cached"]
    compile["options"] = {"capture_limit": 5}
    assert folder.names(variable="GEX_CACHE_DIR", compile=compile) == ["graph"]


def test_guards_decide(tmp_path: Path) -> None:
    """What the frame depends on has changed; the run itself compares with eager."""
    folder = Folder(tmp_path)
    assert folder.names() == ["graph"]
    for changed in (
        {"attributes": {"negate": True}},
        {"attributes": {"power": 3}},
        {"rows": 4},
        {"activation": "sigmoid"},
    ):
        assert folder.names(**changed) == ["graph"], changed
        assert folder.names(**changed) == ["cached"], changed
    assert folder.names() == ["cached"]


def test_a_changed_source_is_traced_again(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    assert folder.names() == ["graph"]
    (tmp_path / "model.py").write_text(MODEL.replace("torch.tanh", "torch.sin"))
    assert folder.names() == ["graph"]
    assert folder.names() == ["cached"]


def test_what_can_not_be_kept_is_traced_each_time(tmp_path: Path) -> None:
    breaks = MODEL.replace("return activation(", "torch._dynamo.graph_break(); return activation(")
    folder = Folder(tmp_path, breaks)
    for _ in range(2):
        assert "cached" not in folder.names()
    assert "cached" not in folder.names(mode="enable_grad")
    assert folder.records() == []


def test_damaged_and_foreign_entries_are_replaced(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    assert folder.names() == ["graph"]
    (record,) = folder.records()
    good = record.read_bytes()

    for bad in (good[: len(good) // 2], good[:-1] + bytes([good[-1] ^ 1]), b"", b"something else"):
        record.write_bytes(bad)
        assert folder.names() == ["graph"]
        assert folder.names() == ["cached"]

    record.chmod(0o644)
    assert folder.names() == ["graph"]
    assert oct(record.stat().st_mode & 0o777) == "0o600"

    record.unlink()
    os.mkfifo(record)
    assert folder.names() == ["graph"]
    assert folder.names() == ["cached"]

    # The record of another frame in the place of this one.
    other = Folder(tmp_path / "other", MODEL.replace("torch.relu", "torch.exp"))
    other.names()
    shutil.copyfile(other.records()[0], record)
    assert folder.names() == ["graph"]
    assert folder.names() == ["cached"]
