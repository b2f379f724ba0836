"""Load test of gex serve: throughput, latencies, lost answers, memory; bad requests mixed in.

    python bench/serve_load.py --requests 100000 --clients 8

A small convolutional network is compiled, served and called by clients that keep their connections.
With --onnxruntime the same requests go to the same model behind onnxruntime, in a server made with
Python's http.server: its figures include the cost of Python, which gex serve does not have.
"""

from __future__ import annotations

import argparse
import http.client
import http.server
import json
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

import numpy as np
import onnx

ROOT = pathlib.Path(__file__).resolve().parent.parent
GEX = pathlib.Path(os.environ.get("GEX_BUILD_DIR", ROOT / "build")) / "bin" / "gex"
CHANNELS, SIDE, CLASSES = 3, 32, 10


def write_model(path: pathlib.Path) -> None:
    h = onnx.helper
    rng = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        values = (rng.standard_normal(shape) * 0.1).astype(np.float32)
        return onnx.numpy_helper.from_array(values, name)

    nodes = [
        h.make_node("Conv", ["x", "w0"], ["c0"], pads=[1, 1, 1, 1]),
        h.make_node("Relu", ["c0"], ["r0"]),
        h.make_node("Conv", ["r0", "w1"], ["c1"], pads=[1, 1, 1, 1], strides=[2, 2]),
        h.make_node("Relu", ["c1"], ["r1"]),
        h.make_node("GlobalAveragePool", ["r1"], ["g"]),
        h.make_node("Flatten", ["g"], ["f"]),
        h.make_node("MatMul", ["f", "w2"], ["l"]),
        h.make_node("Softmax", ["l"], ["p"]),
    ]
    graph = h.make_graph(
        nodes,
        "net",
        [h.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", CHANNELS, SIDE, SIDE])],
        [h.make_tensor_value_info("p", onnx.TensorProto.FLOAT, ["batch", CLASSES])],
        [weight("w0", 16, 3, 3, 3), weight("w1", 32, 16, 3, 3), weight("w2", 32, CLASSES)],
    )
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, path)


def request_of(x: np.ndarray) -> tuple[bytes, dict[str, str]]:
    tensor = {"name": "x", "datatype": "FP32", "shape": list(x.shape)}
    tensor["parameters"] = {"binary_data_size": x.nbytes}
    words = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    return words + x.tobytes(), {"Inference-Header-Content-Length": str(len(words))}


BAD = [b"{", b"[]", b'{"inputs": [{"name": "y"}]}', b'{"inputs": 3}', b"\x00" * 40]


def client(
    port: int, requests: int, bad_share: float, seed: int, results: multiprocessing.Queue[Any]
) -> None:
    """Sends requests one after the other and checks each answer."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((1, CHANNELS, SIDE, SIDE)).astype(np.float32)
    body, headers = request_of(x)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    times, counts, reference = [], {"right": 0, "refused": 0, "busy": 0, "wrong": 0}, None
    is_bad = rng.random(requests) < bad_share
    for k in range(requests):
        begin = time.perf_counter()
        if is_bad[k]:
            connection.request("POST", "/v2/models/net/infer", BAD[k % len(BAD)])
        else:
            connection.request("POST", "/v2/models/net/infer", body, headers)
        response = connection.getresponse()
        content = response.read()
        if is_bad[k]:
            counts["refused" if response.status == 400 else "wrong"] += 1
            continue
        times.append(time.perf_counter() - begin)
        if response.status == 429:
            counts["busy"] += 1
            continue
        scores = np.frombuffer(content[-4 * CLASSES :], np.float32)
        reference = scores if reference is None else reference
        right = response.status == 200 and np.allclose(scores, reference, atol=1e-5)
        counts["right" if right else "wrong"] += 1
    results.put((times, counts))


def run_clients(port: int, requests: int, clients: int, bad_share: float) -> dict[str, Any]:
    results: multiprocessing.Queue[Any] = multiprocessing.Queue()
    share = requests // clients
    processes = [
        multiprocessing.Process(target=client, args=(port, share, bad_share, k, results))
        for k in range(clients)
    ]
    begin = time.perf_counter()
    for process in processes:
        process.start()
    parts = [results.get() for _ in processes]
    seconds = time.perf_counter() - begin
    for process in processes:
        process.join()
    times = np.sort(np.concatenate([np.array(part[0]) for part in parts]))
    counts = {name: sum(part[1][name] for part in parts) for name in parts[0][1]}
    return {
        "requests": share * clients,
        "requests_a_second": round(share * clients / seconds, 1),
        "p50_ms": round(float(np.percentile(times, 50)) * 1e3, 3),
        "p99_ms": round(float(np.percentile(times, 99)) * 1e3, 3),
        **counts,
        "lost": share * clients - sum(counts.values()),
    }


def resident_kib(pid: int) -> int:
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    raise RuntimeError("no VmRSS")


def processor_seconds(pid: int) -> float:
    """Of all threads of a process, the system's part included."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def grown(figures: dict[str, Any]) -> bool:
    """Whether the server took more than a little memory after its first requests."""
    before, after = figures["resident_kib_before"], figures["resident_kib_after"]
    return bool(after > before * 1.05 + 4096)


def with_gex(folder: pathlib.Path, options: argparse.Namespace) -> dict[str, Any]:
    file = folder / "net.gexe"
    words = ["--shape", f"x=1..32,{CHANNELS},{SIDE},{SIDE}"]
    subprocess.run([GEX, "compile", folder / "net.onnx", "-o", file, *words], check=True)
    port_file = folder / "port"
    server = subprocess.Popen(
        [GEX, "serve", file, "--trust", "--port", "0", "--port-file", port_file, "--batch-delay-us",
         str(options.delay_us)],
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    while not port_file.exists() or not port_file.read_text().endswith("\n"):
        time.sleep(0.02)
    port = int(port_file.read_text())
    try:
        run_clients(port, options.clients * 200, options.clients, options.bad)
        before, used = resident_kib(server.pid), processor_seconds(server.pid)
        figures = run_clients(port, options.requests, options.clients, options.bad)
        used = processor_seconds(server.pid) - used
        figures["processor_ms_a_request"] = round(used / figures["requests"] * 1e3, 4)
        figures["resident_kib_before"] = before
        figures["resident_kib_after"] = resident_kib(server.pid)
    finally:
        server.send_signal(signal.SIGTERM)
        figures["exit_code"] = server.wait(timeout=30)
    return figures


def with_onnxruntime(folder: pathlib.Path, options: argparse.Namespace) -> dict[str, Any]:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(folder / "net.onnx"))

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Answers in one packet, sent at once.
        wbufsize = 1 << 16
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                size = int(self.headers.get("Inference-Header-Content-Length", len(content)))
                shape = json.loads(content[:size])["inputs"][0]["shape"]
                x = np.frombuffer(content[size:], np.float32).reshape(shape)
                answer = session.run(None, {"x": x})[0].tobytes()
                status = 200
            except (ValueError, KeyError, TypeError, IndexError):
                answer, status = b"{}", 400
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        port = server.server_address[1]
        run_clients(port, options.clients * 50, options.clients, options.bad)
        used = processor_seconds(os.getpid())
        figures = run_clients(port, options.requests, options.clients, options.bad)
        used = processor_seconds(os.getpid()) - used
        figures["processor_ms_a_request"] = round(used / figures["requests"] * 1e3, 4)
        return figures
    finally:
        server.shutdown()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--bad", type=float, default=0.02, help="share of malformed requests")
    parser.add_argument("--delay-us", type=int, default=200)
    parser.add_argument("--onnxruntime", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_model(folder / "net.onnx")
        figures = {"gex": with_gex(folder, options)}
        if options.onnxruntime:
            figures["onnxruntime"] = with_onnxruntime(folder, options)
    gex = figures["gex"]
    gex["memory"] = "grew" if grown(gex) else "flat"
    print(json.dumps(figures, indent=2))
    failed = gex["lost"] or gex["wrong"] or gex["exit_code"] or gex["memory"] == "grew"
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
