"""GEX_LOG, TORCH_LOGS and TORCH_TRACE: what they show, and that nothing is shown by default."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

SCRIPT = """
import torch
def model(x):
    return torch.softmax(torch.relu(x @ x), -1) + torch.linalg.inv(x)
torch.compile(model, backend="gex"{options})(torch.eye(16))
"""
PLAIN = SCRIPT.replace(" + torch.linalg.inv(x)", "").format(options="")


def output(script: str, environment: dict[str, str], env: dict[str, str]) -> str:
    run = subprocess.run(
        [sys.executable, "-c", script],
        env={**env, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stdout
    return run.stdout


@pytest.fixture
def env(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    import os

    return {k: v for k, v in os.environ.items() if not k.startswith(("GEX_", "TORCH_"))}


def test_nothing_is_logged_by_default(env: dict[str, str]) -> None:
    assert output(PLAIN, {}, env) == ""


def test_gex_log_sets_levels_by_area(env: dict[str, str]) -> None:
    text = output(PLAIN, {"GEX_LOG": "info,fuse=debug,torch=error"}, env)
    lines = text.splitlines()
    assert any(line.startswith("gex info: compile: graph_1: ") for line in lines)
    assert any(
        line.startswith("gex info: capture: graph_1: captured sizes [") and "first call" in line
        for line in lines
    )
    assert any(line.startswith("gex debug: fuse: graph_1: contraction of ") for line in lines)
    assert not any(" passes: " in line or " torch: " in line for line in lines)


def test_gex_log_names_the_nearest_area(env: dict[str, str]) -> None:
    text = output(PLAIN, {"GEX_LOG": "fusse=debug"}, env)
    assert "GEX_LOG: 'fusse=debug' has no effect" in text
    assert "did you mean 'fuse'?" in text


def test_torch_logs_show_what_they_name(env: dict[str, str]) -> None:
    text = output(PLAIN, {"TORCH_LOGS": "gex,gex.fusion"}, env)
    assert "graph_1: 3 native nodes" in text
    assert "graph_1: gex.fusion" in text
    assert "contraction of " in text
    assert "gex.program" not in text
    assert 'launch "' not in text


@pytest.mark.parametrize("name, holds", [("gex.program", "launch "), ("gex.kernels", "kernel ")])
def test_torch_logs_know_each_artifact_alone(name: str, holds: str, env: dict[str, str]) -> None:
    text = output(PLAIN, {"TORCH_LOGS": name}, env)
    assert f"graph_1: {name}" in text
    assert holds in text
    assert "native nodes" not in text


def test_torch_logs_show_texts_of_graphs_with_frozen_parameters(env: dict[str, str]) -> None:
    script = """
import torch
layer = torch.nn.Linear(8, 8).eval()
with torch.no_grad():
    fn = torch.compile(layer, backend="gex", options={"frozen_parameter": True})
    fn(torch.ones(2, 8)), fn(torch.ones(2, 8))
"""
    text = output(script, {"TORCH_LOGS": "gex.program"}, env)
    assert text.count("graph_1: gex.program") == 1
    assert "launch " in text


def test_the_log_names_calls_through_pytorch(env: dict[str, str]) -> None:
    script = SCRIPT.format(options="")
    text = output(script, {"GEX_LOG": "torch=debug", "PYTHONWARNINGS": "ignore"}, env)
    assert "gex info: torch: graph_1: " in text
    assert "call aten.linalg_inv_ex" in text


def test_structured_traces_hold_each_stage(env: dict[str, str], tmp_path: pathlib.Path) -> None:
    output(PLAIN, {"TORCH_TRACE": str(tmp_path)}, env)
    (log,) = tmp_path.glob("dedicated_log_torch_trace_*.log")
    records = [
        json.loads(line[line.index("{") :])
        for line in log.read_text().splitlines()
        if line.startswith("V") and '"artifact"' in line
    ]
    found = {r["artifact"]["name"]: r for r in records if r["artifact"]["name"].startswith("gex_")}
    assert set(found) == {
        f"gex_{what}_graph_1" for what in ("fusion", "graph", "kernels", "passes", "program")
    }
    for record in found.values():
        assert record["artifact"]["encoding"] == "string"
        assert record["frame_id"] == 0  # beside what Dynamo wrote of this function
        assert "has_payload" in record
