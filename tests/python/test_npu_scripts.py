"""Scripts written for Ascend NPUs run unchanged under `python -m gex.npu`."""

from __future__ import annotations

from pathlib import Path

import pytest

from npu_run import SCRIPTS, succeed
from tiny_checkpoint import save_tiny_qwen3


def test_device_tests_pass_inside_the_shim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEX_NPU_DEVICE", "cpu")
    tests = Path(__file__).parent / "test_npu_device.py"
    out = succeed("-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests))
    assert " passed" in out and "skipped" not in out


def test_npugraph_ex_and_torchair_backends() -> None:
    out = succeed(str(SCRIPTS / "backends.py"))
    refused = [line for line in out.splitlines() if line.startswith("refused: ")]
    assert len(refused) == 3
    assert "config.mode must be one of ['max-autotune'" in refused[0]
    assert "experimental_config.frozen_parameter must be one of [" in refused[1]
    assert "did you mean 'frozen_parameter'" in refused[2]


def test_packages_under_each_of_their_names() -> None:
    lines = succeed(str(SCRIPTS / "packages.py")).splitlines()
    printed = ("z is", " ")
    assert [line for line in lines if not line.startswith(printed)] == [
        "scopes 9.0",
        "scopes 9.0",
        "eager 9.0",
        "events 4.0",
        "exported ['export.gex', 'export.pt2']",
        "done",
    ]


def test_the_graph_api_under_each_of_its_names() -> None:
    lines = succeed(str(SCRIPTS / "graph_api.py")).splitlines()
    assert lines == ["configured 32.0", "decomposed 48.0", "quantised torch.int8 (3,)"]


def test_recorded_calls_are_updated_and_refuse_to_wait() -> None:
    assert succeed(str(SCRIPTS / "recorded.py")).splitlines() == [
        "capturing True",
        "updated True False",
        "torch.npu.synchronize() refused",
        "torch.npu.empty_cache() refused",
        "split [3.0, 3.0]",
    ]


def test_profiler_memory_events_and_checkpoints() -> None:
    lines = succeed(str(SCRIPTS / "inspect_model.py")).splitlines()
    assert lines[-1] == "done"
    allocated, peak = (float(line.split()[1]) for line in lines if line.endswith(" MB"))
    assert 0 < allocated <= peak


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["inductor", "npugraph_ex", "npugraphs"])
def test_training_with_a_compiler(backend: str) -> None:
    assert "fell True" in succeed(str(SCRIPTS / "train.py"), backend)


@pytest.mark.slow
def test_mixed_precision() -> None:
    assert "done" in succeed(str(SCRIPTS / "mixed_precision.py"))


@pytest.mark.slow
def test_generation_from_a_checkpoint(tmp_path: Path) -> None:
    save_tiny_qwen3(tmp_path)
    out = succeed(str(SCRIPTS / "generate.py"), str(tmp_path), "8")
    assert out.count("first step equal True") == 2
    distinct = [int(line.split()[3]) for line in out.splitlines() if line.startswith("tokens")]
    assert min(distinct) > 4


@pytest.mark.slow
def test_spawned_children_have_the_shim() -> None:
    assert "(0, 2.0, True)" in succeed(str(SCRIPTS / "spawned.py"))
