"""Devices, tensors, memory and streams under the npu shim, mapped onto the CPU.

Runs inside the shim only: `GEX_NPU_DEVICE=cpu python -m gex.npu -m pytest <this file>`, which
test_npu_scripts.py does.
"""

from __future__ import annotations

import io
import json
import pathlib
import pickle
import time
from collections import Counter
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.cuda import _memory_viz
from torch.nn import functional as F
from torch.testing import assert_close

import gex

torch_npu = pytest.importorskip("torch_npu", reason="runs inside `python -m gex.npu`")
MIB = 2**20


def test_every_way_to_name_the_device() -> None:
    device = torch.device("npu:0")
    assert device.type == "npu" and device.index == 0 and str(device) == "npu:0"
    made = [
        torch.zeros(2, device="npu"),
        torch.ones(2, device=device),
        torch.full((2,), 1, device="npu:0"),
        torch.tensor([1.0], device=device),
        torch.as_tensor([1.0], device=device),
        torch.arange(3, device="npu"),
        torch.randn(2, device=device),
        torch.eye(2, device="npu"),
        torch.fft.fftfreq(4, device="npu"),
        torch.zeros_like(torch.ones(2), device="npu"),
        torch.ones(2).new_zeros(2, device="npu"),
        torch.empty(2).to("npu"),
        torch.empty(2).to(device=device),
        torch.empty(2).to(0),
        torch.empty(2).npu(),
        torch.empty(2).npu(0),
        torch.empty(2).npu("npu:0"),
        torch.nn.Linear(2, 2, device="npu").weight,
        torch.nn.Linear(2, 2).npu().weight,
        torch.nn.Linear(2, 2).to("npu:0").half().weight,
    ]
    with device:
        made.append(torch.zeros(2))
    torch.set_default_device("npu")
    made.append(torch.zeros(2))
    torch.set_default_device(None)
    for tensor in made:
        assert str(tensor.device) == "cpu" and tensor.is_npu
    assert torch.empty(2).to(device, torch.float16, non_blocking=True).dtype == torch.float16


def test_a_device_out_of_range_is_an_error() -> None:
    message = "does not exist: npu is mapped onto the CPU, which has 1 device"
    with pytest.raises(RuntimeError, match=message):
        torch.ones(2, device="npu:1")
    with pytest.raises(RuntimeError, match=message):
        torch.npu.set_device(3)


def test_transfers_copy_as_they_do_on_a_device() -> None:
    host = torch.ones(3)
    moved = host.npu()
    moved.add_(1)
    assert host.tolist() == [1, 1, 1]
    back = moved.cpu()
    moved.zero_()
    assert back.tolist() == [2, 2, 2]
    assert moved.to("cpu").data_ptr() != moved.data_ptr()


def test_gradients_flow_through_transfers() -> None:
    host = torch.ones(2, requires_grad=True)
    (host.npu() * 3).cpu().sum().backward()
    assert host.grad.tolist() == [3, 3]


def test_moving_a_module_keeps_tied_weights_tied() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    model[1].weight = model[0].weight
    model.npu()
    assert model[1].weight is model[0].weight


def test_memory_counts_tensors() -> None:
    before = torch.npu.memory_allocated()
    torch.npu.reset_peak_memory_stats()
    x = torch.ones(64 * MIB // 4, device="npu")
    view = x[1:]
    assert torch.npu.memory_allocated() - before == 64 * MIB
    del x, view
    assert torch.npu.memory_allocated() == before
    assert torch.npu.max_memory_allocated() - before == 64 * MIB
    torch.npu.reset_peak_memory_stats()
    assert torch.npu.max_memory_allocated() == before
    free, total = torch.npu.mem_get_info()
    assert 0 < free <= total
    assert "peak" in torch.npu.memory_summary()


def test_memory_counts_what_the_engine_holds_by_use() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return (x @ x).cumsum(0) @ x

    torch.npu.empty_cache()
    idle = torch.npu.memory_stats()
    assert idle["allocated_bytes.temporaries.current"] == 0
    x = torch.ones(1024, 1024, device="npu")
    torch.npu.reset_peak_memory_stats()
    torch.compile(model, backend="npugraph_ex")(x)
    stats = torch.npu.memory_stats()
    held = stats["allocated_bytes.temporaries.current"]
    assert held >= 2 * x.nbytes  # the two products are alive at the same time
    assert stats["allocated_bytes.engine.current"] >= held
    assert stats["allocated_bytes.temporaries.peak"] == held
    assert stats["allocated_bytes.all.current"] >= held + x.nbytes
    torch.npu.empty_cache()
    after = torch.npu.memory_stats()
    assert after["allocated_bytes.temporaries.current"] == 0
    assert after["allocated_bytes.temporaries.peak"] == held


def test_pytorchs_viewer_reads_the_snapshot(tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x @ x, -1) @ x + x.cumsum(0)

    compiled = torch.compile(model, backend="npugraph_ex")
    compiled(torch.ones(64, 64, device="npu"))
    torch.npu.memory._dump_snapshot(str(tmp_path / "all.pickle"))
    snapshot = gex.memory_snapshot(tmp_path / "one.pickle", compiled)
    assert pickle.loads((tmp_path / "one.pickle").read_bytes()) == snapshot
    (segment,) = snapshot["segments"]
    assert segment["total_size"] == gex.reports()[-1].runner.memory[0]["arena"]
    assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]
    active = [b for b in segment["blocks"] if b["state"] == "active_allocated"]
    assert segment["allocated_size"] == sum(b["size"] for b in active) == 2 * 64 * 64 * 4
    assert any("test_npu_device.py" in f["filename"] for b in active for f in b["frames"])
    (trace,) = snapshot["device_traces"]
    actions = Counter(entry["action"] for entry in trace)
    assert actions["alloc"] == actions["free_completed"] == 3
    everything = pickle.loads((tmp_path / "all.pickle").read_bytes())
    assert "total_allocated" in _memory_viz.segsum(everything)
    assert "TOTAL MEM" in _memory_viz.trace(everything)
    assert "MemoryViz.js" in _memory_viz.trace_plot(snapshot)


def test_the_profiler_lists_kernels_and_writes_a_trace(tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.relu(x @ x), -1) @ x

    compiled = torch.compile(model, backend="npugraph_ex")
    x = torch.ones(32, 32, device="npu")
    compiled(x)
    profiler = torch_npu.profiler
    with profiler.profile(
        activities=[profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.NPU],
        on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path)),
    ) as profile:
        compiled(x)
        profile.step()
    kernels = {step["name"] for step in gex.reports()[-1].runner.steps[0] if "name" in step}
    assert "matmul+relu" in kernels
    table = profile.key_averages().table(sort_by="self_npu_time_total", row_limit=100)
    (trace,) = tmp_path.glob("*.pt.trace.json")
    names = {event.get("name") for event in json.loads(trace.read_text())["traceEvents"]}
    for kernel in kernels:
        assert kernel in table and kernel in names


def test_events_measure_time() -> None:
    start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    with pytest.raises(ValueError, match="must be recorded"):
        start.elapsed_time(end)
    start.record()
    time.sleep(0.02)
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) >= 20


def test_the_current_stream_is_that_of_the_block() -> None:
    side = torch.npu.Stream()
    with torch.npu.stream(side):
        assert torch.npu.current_stream() is side
    assert torch.npu.current_stream() is torch.npu.default_stream()
    side.wait_event(side.record_event())
    torch.ones(2).npu().record_stream(side)


@pytest.mark.parametrize("backend", ["gex", "npugraph_ex"])
def test_record_stream_inside_a_compiled_function(backend: str) -> None:
    side = torch.npu.Stream()

    def f(x: torch.Tensor) -> torch.Tensor:
        event = torch.npu.Event()
        y = x @ x
        event.record()
        with torch.npu.stream(side):
            event.wait(side)
            z = y @ y
            y.record_stream(side)
            y.record_stream(stream=torch.npu.current_stream())
        del y
        torch.npu.current_stream().wait_stream(side)
        return z + 1

    x = torch.eye(4).npu()
    compiled = torch.compile(f, backend=backend, fullgraph=True)
    for _ in range(20):
        torch.testing.assert_close(compiled(x), f(x))


def test_streams_inside_a_compiled_function() -> None:
    side = torch.npu.Stream()

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        with torch.npu.stream(side):
            z = y * 2
        return y + z

    assert torch.compile(f, backend="npugraph_ex")(torch.ones(3).npu()).tolist() == [6, 6, 6]


def test_devices_inside_a_compiled_function() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        steps = torch.arange(x.shape[0], device="npu:0").unsqueeze(1)
        more = torch.zeros_like(x, device=torch.device("npu")) + torch.ones(2, device=x.device)
        with torch.autocast("npu", dtype=torch.bfloat16):
            product = x @ x.T
        return product.float().sum() + (x + steps + more).cpu().to("npu")

    x = torch.randn(3, 2).npu()
    assert_close(torch.compile(f, backend="npugraph_ex", fullgraph=True)(x), f(x))


@pytest.mark.parametrize(
    ("owner", "wrong", "right"),
    [
        ("torch.npu", "memory_alocated", "memory_allocated"),
        ("torch_npu", "npu_rms_norms", "npu_rms_norm"),
        ("torchair", "get_npu_backends", "get_npu_backend"),
    ],
)
def test_unknown_names_are_explained(owner: str, wrong: str, right: str) -> None:
    module = __import__(owner, fromlist=["name"])
    assert not hasattr(module, wrong)
    with pytest.raises(AttributeError) as problem:
        getattr(module, wrong)
    assert f"module '{owner}' has no attribute '{wrong}'" in str(problem.value)
    assert f"did you mean '{right}'?" in str(problem.value)
    assert "It has: " in str(problem.value)


def test_seeds_and_generators() -> None:
    torch.npu.manual_seed(3)
    a = torch.randn(2, device="npu")
    state = torch.npu.get_rng_state()
    b = torch.randn(2, device="npu")
    torch.npu.set_rng_state(state)
    assert torch.equal(torch.randn(2, device="npu"), b)
    torch.manual_seed(3)
    assert torch.equal(torch.randn(2, device="npu"), a)
    generator = torch.Generator(device="npu")
    generator.manual_seed(3)
    assert torch.equal(torch.randn(2, generator=generator, device="npu"), a)
    assert isinstance(generator, torch.Generator)
    assert isinstance(torch.default_generator, torch.Generator)


@pytest.mark.parametrize("location", ["npu:0", torch.device("npu"), {"cpu": "npu:0"}, None])
def test_checkpoints_load_onto_an_npu(location: object) -> None:
    file = io.BytesIO()
    torch.save({"w": torch.arange(3.0).npu()}, file)
    file.seek(0)
    assert torch.load(file, map_location=location)["w"].tolist() == [0, 1, 2]


def test_storages_saved_on_an_npu_are_restored() -> None:
    restored = torch.serialization.default_restore_location(torch.UntypedStorage(4), "npu:0")
    assert restored.device.type == "cpu"


def test_hccl_runs_over_gloo(tmp_path: Path) -> None:
    dist.init_process_group(
        backend="hccl", init_method=f"file://{tmp_path}/store", rank=0, world_size=1
    )
    try:
        x = torch.ones(2).npu()
        dist.all_reduce(x)
        assert dist.get_backend() == "gloo" and x.tolist() == [1, 1]
    finally:
        dist.destroy_process_group()


def test_norms_and_gates() -> None:
    x, y, gamma = torch.randn(2, 3, 8), torch.randn(2, 3, 8), torch.rand(8)
    assert_close(torch_npu.npu_rms_norm(x, gamma, 1e-5)[0], F.rms_norm(x, (8,), gamma, 1e-5))
    normed, _, total = torch_npu.npu_add_rms_norm(x, y, gamma)
    assert_close(total, x + y)
    assert_close(normed, F.rms_norm(x + y, (8,), gamma, 1e-6))
    assert_close(torch_npu.npu_swiglu(x), F.silu(x[..., :4]) * x[..., 4:])


def test_rotary_multiplication() -> None:
    x, ones, zeros = torch.randn(2, 3, 8), torch.ones(8), torch.zeros(8)
    assert_close(torch_npu.npu_rotary_mul(x, ones, zeros), x)
    turned = torch.cat((-x[..., 4:], x[..., :4]), -1)
    assert_close(torch_npu.npu_rotary_mul(x, zeros, ones), turned)


def test_fusion_attention_in_every_layout() -> None:
    q, k, v = (torch.randn(2, 4, 5, 8) for _ in range(3))
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    mask = torch.ones(5, 5, dtype=torch.bool).triu(1)

    def attend(tensors: list[torch.Tensor], layout: str, **options: object) -> torch.Tensor:
        return torch_npu.npu_fusion_attention(*tensors, 4, layout, scale=8**-0.5, **options)[0]

    assert_close(attend([q, k, v], "BNSD", atten_mask=mask), expected)
    assert_close(attend([q, k, v], "BNSD", sparse_mode=3), expected)
    rows, wanted = [t.transpose(1, 2) for t in (q, k, v)], expected.transpose(1, 2)
    assert_close(attend(rows, "BSND", sparse_mode=2), wanted)
    assert_close(attend([t.flatten(2) for t in rows], "BSH", sparse_mode=2), wanted.flatten(2))
    first = [t.flatten(2).transpose(0, 1) for t in rows]
    assert_close(attend(first, "SBH", sparse_mode=2), wanted.flatten(2).transpose(0, 1))
    lengths = {"actual_seq_qlen": [5, 10], "actual_seq_kvlen": [5, 10]}
    packed = [t.flatten(0, 1) for t in rows]
    assert_close(attend(packed, "TND", sparse_mode=2, **lengths), wanted.flatten(0, 1))


def test_scripts_for_cuda_by_transfer_to_npu() -> None:
    from torch_npu.contrib import transfer_to_npu  # noqa: F401

    x = torch.ones(2, device="cuda:0") + torch.ones(2).cuda()
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() >= 0
    assert torch.nn.Linear(2, 2).cuda()(x).shape == (2,)


def test_graphs_are_recorded_and_replayed() -> None:
    a = torch.ones(1000, device="npu")
    g = torch.npu.NPUGraph()
    with torch.npu.graph(g):
        assert torch.npu.is_current_stream_capturing()
        b = a
        for _ in range(10):
            b = b + 1
    a.fill_(2)
    g.replay()
    assert b.sum().item() == 12000
    layer = torch.npu.make_graphed_callables(torch.nn.Linear(3, 3).npu(), (a[:3],))
    assert_close(layer(a[3:6]), F.linear(a[3:6], layer.weight, layer.bias))
