"""gex serve: the KServe v2 protocol, batching, limits, reload and shutdown."""

from __future__ import annotations

import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("GEX_BUILD_DIR", ROOT / "build"))
GEX = BUILD / "bin" / "gex"

pytestmark = pytest.mark.skipif(not GEX.exists(), reason="build/bin/gex is not built")

GRAPH = """symbols n in [1, 64]
graph main(%x: f32[n, 4]) -> (f32[n, 4], i64[n]) {
  %two = full() {value = 2.0} : f32[]
  %y = mul(%x, %two) : f32[n, 4]
  %s = reduce_sum(%y) {axes = [1]} : f32[n]
  %i = cast(%s) {dtype = i64} : i64[n]
  return %y, %i
}
"""


class Server:
    def __init__(self, folder: pathlib.Path, *words: str | pathlib.Path) -> None:
        port_file = folder / "port"
        port_file.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [GEX, "serve", *words, "--trust", "--port", "0", "--port-file", port_file],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        deadline = time.monotonic() + 30
        while not port_file.exists() or not port_file.read_text().endswith("\n"):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise AssertionError(self.process.communicate())
            time.sleep(0.02)
        ports = [int(word) for word in port_file.read_text().split()]
        self.port = ports[0]
        self.grpc_port = ports[1] if len(ports) > 1 else None

    def call(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes, http.client.HTTPMessage]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        content = response.read()
        connection.close()
        return response.status, content, response.headers

    def json(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        status, content, _ = self.call(method, path, body)
        return status, json.loads(content) if content else None

    def infer(self, x: np.ndarray, name: str = "double") -> tuple[int, Any]:
        return self.json("POST", f"/v2/models/{name}/infer", request_of(x))

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=30)
        return self.process.returncode


def request_of(x: np.ndarray) -> dict[str, Any]:
    tensor = {"name": "x", "datatype": "FP32", "shape": list(x.shape), "data": x.ravel().tolist()}
    return {"id": "7", "inputs": [tensor]}


def compile_graph(folder: pathlib.Path, text: str, name: str) -> pathlib.Path:
    (folder / f"{name}.gex").write_text(text)
    path = folder / f"{name}.gexe"
    subprocess.run(
        [GEX, "compile", folder / f"{name}.gex", "-o", path, "--cpu", "v2,v3"],
        check=True,
        capture_output=True,
        timeout=120,
    )
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("serve")
    compile_graph(folder, GRAPH, "double")
    return folder


@pytest.fixture(scope="module")
def server(folder: pathlib.Path) -> Iterator[Server]:
    server = Server(folder, folder / "double.gexe", "--batch-delay-us", "2000")
    yield server
    assert server.stop() == 0


def test_health_metadata_and_versions(server: Server) -> None:
    assert server.json("GET", "/v2/health/live") == (200, {"live": True})
    assert server.json("GET", "/v2/health/ready") == (200, {"ready": True})
    assert server.json("GET", "/v2/models/double/ready") == (200, {"ready": True})
    status, told = server.json("GET", "/v2/models/double")
    assert status == 200 and told["versions"] == ["1"]
    assert told["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    assert told["outputs"][1]["datatype"] == "INT64"
    assert server.json("GET", "/v2")[1]["name"] == "gex"
    assert server.json("GET", "/v2/models/double/versions/1")[0] == 200
    assert server.json("GET", "/v2/models/double/versions/2")[0] == 404
    assert server.json("GET", "/v2/models/other")[0] == 404
    status, models = server.json("POST", "/v2/repository/index", {})
    assert models == [{"name": "double", "version": "1", "state": "READY"}]


def test_inference_with_json(server: Server) -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    status, answer = server.infer(x)
    assert status == 200, answer
    assert answer["id"] == "7" and answer["model_name"] == "double"
    y, i = answer["outputs"]
    assert y["shape"] == [2, 4] and y["data"] == (x * 2).ravel().tolist()
    assert i["data"] == (x * 2).sum(1).astype(int).tolist()
    nested = request_of(x)
    nested["inputs"][0]["data"] = x.tolist()
    nested["outputs"] = [{"name": answer["outputs"][1]["name"]}]
    status, answer = server.json("POST", "/v2/models/double/infer", nested)
    assert status == 200 and len(answer["outputs"]) == 1


def test_inference_with_binary_tensors(server: Server) -> None:
    x = np.arange(4, dtype=np.float32).reshape(1, 4)
    header = {
        "inputs": [
            {
                "name": "x",
                "datatype": "FP32",
                "shape": [1, 4],
                "parameters": {"binary_data_size": 16},
            }
        ],
        "parameters": {"binary_data_output": True},
    }
    words = json.dumps(header).encode()
    headers = {"Inference-Header-Content-Length": str(len(words))}
    status, content, told = server.call(
        "POST", "/v2/models/double/infer", words + x.tobytes(), headers
    )
    assert status == 200, content
    size = int(told["Inference-Header-Content-Length"])
    outputs = json.loads(content[:size])["outputs"]
    assert [o["parameters"]["binary_data_size"] for o in outputs] == [16, 8]
    np.testing.assert_array_equal(np.frombuffer(content[size : size + 16], np.float32), x[0] * 2)
    assert struct.unpack("<q", content[size + 16 :]) == (12,)


X = np.ones((1, 4), np.float32)


def changed(**fields: Any) -> dict[str, Any]:
    request = request_of(X)
    request["inputs"][0].update(fields)
    return request


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"{", "JSON"),
        (b"[1, 2]", "not a JSON object"),
        (b'{"inputs": []}', "'x' is missing"),
        (changed(name="y"), "no input 'y'"),
        (changed(datatype="INT64"), "takes FP32"),
        (changed(shape=[1, 5]), "elements"),
        (changed(shape=[-1, 4]), "negative"),
        (changed(shape=[1 << 40, 1 << 40]), "too many"),
        (changed(shape="wide"), "not a list"),
        (changed(data=["a", "b", "c", "d"]), "not a number"),
        (changed(data=[1, 2]), "2 elements"),
        (changed(shape=[2, 3], data=[1] * 6), "4"),
        (changed(shape=[100, 4], data=[1] * 400), "64"),
        ({"inputs": request_of(X)["inputs"], "outputs": [{"name": "z"}]}, "no output 'z'"),
        ({"inputs": request_of(X)["inputs"], "outputs": 3}, "not a list"),
        ({"inputs": request_of(X)["inputs"], "id": 3}, "not a string"),
        ({"inputs": request_of(X)["inputs"], "parameters": {"timeout": "5"}}, "microseconds"),
        ({"inputs": request_of(X)["inputs"], "parameters": {"timeout": -1}}, "microseconds"),
        ({"inputs": request_of(X)["inputs"], "parameters": {"timeout": 2.5}}, "microseconds"),
        (b'{"inputs": ' + b"[" * 200, "deeply"),
        (b"\xff\xfe\x00", "JSON"),
    ],
)
def test_bad_requests_are_answered_and_the_service_stays_up(
    server: Server, body: Any, word: str
) -> None:
    status, answer = server.json("POST", "/v2/models/double/infer", body)
    assert status == 400, answer
    assert word in answer["error"], answer
    assert server.infer(X)[0] == 200


def test_bad_headers_and_cut_off_requests(server: Server) -> None:
    for value in ("x", "-1", "999999"):
        status, answer, _ = server.call(
            "POST",
            "/v2/models/double/infer",
            request_of(X),
            {"Inference-Header-Content-Length": value},
        )
        assert status == 400, answer
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(b"POST /v2/models/double/infer HTTP/1.1\r\nContent-Length: 100\r\n\r\n{")
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(b"\x00\x01nonsense\r\n\r\n")
    assert server.infer(X)[0] == 200


def test_requests_that_wait_together_run_together(server: Server) -> None:
    def counter(name: str) -> float:
        lines = server.call("GET", "/metrics")[1].decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name + "{"))

    runs, requests = counter("gex_runs_total"), counter("gex_batched_requests_total")
    wrong: list[Any] = []

    def work(k: int) -> None:
        for turn in range(20):
            x = np.full((1 + k % 3, 4), k + turn, np.float32)
            status, answer = server.infer(x)
            if status != 200 or answer["outputs"][0]["data"] != (x * 2).ravel().tolist():
                wrong.append(answer)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[:2]
    assert counter("gex_batched_requests_total") - requests == 160
    assert counter("gex_runs_total") - runs < 160
    assert counter("gex_requests_total") >= 160


def test_limits(folder: pathlib.Path) -> None:
    server = Server(folder, folder / "double.gexe", "--max-body", "1000", "--timeout-ms", "20000")
    try:
        assert server.call("POST", "/v2/models/double/infer", b"x" * 5000)[0] == 413
        late = {**request_of(X), "parameters": {"timeout": 1}}  # microseconds
        statuses = {server.json("POST", "/v2/models/double/infer", late)[0] for _ in range(20)}
        assert statuses <= {200, 504}
        assert server.infer(X)[0] == 200
    finally:
        assert server.stop() == 0


def test_a_full_queue_is_429(folder: pathlib.Path) -> None:
    words = ("--queue", "1", "--batch", "1", "--connections", "32")
    server = Server(folder, folder / "double.gexe", *words)
    statuses: list[int] = []

    def work() -> None:
        x = np.ones((64, 4), np.float32)
        statuses.extend(server.infer(x)[0] for _ in range(30))

    try:
        threads = [threading.Thread(target=work) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(statuses) <= {200, 429} and 200 in statuses
        assert server.infer(X)[0] == 200
    finally:
        assert server.stop() == 0


def test_several_models_versions_and_reload_under_load(
    folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    triple = compile_graph(tmp_path, GRAPH.replace("2.0", "3.0"), "triple")
    models = tmp_path / "models"
    for version in ("1", "2"):
        (models / "scale" / version).mkdir(parents=True)
        shutil.copy(folder / "double.gexe", models / "scale" / version / "model.gexe")
    server = Server(tmp_path, models, f"other={triple}")
    factors: list[float] = []
    bad: list[Any] = []
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            status, answer = server.infer(X, "scale")
            if status != 200:
                bad.append(answer)
            else:
                factors.append(answer["outputs"][0]["data"][0])

    try:
        assert server.infer(X, "other")[1]["outputs"][0]["data"] == [3.0] * 4
        assert server.json("GET", "/v2/models/scale")[1]["versions"] == ["1", "2"]
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        replacement = models / "scale" / "2" / "new"
        shutil.copy(triple, replacement)
        replacement.rename(models / "scale" / "2" / "model.gexe")
        assert server.json("POST", "/v2/repository/models/scale/load", {})[0] == 200
        time.sleep(0.3)
        over.set()
        for thread in threads:
            thread.join()
        assert not bad, bad[:2]
        assert factors[0] == 2.0 and factors[-1] == 3.0
        assert set(factors) == {2.0, 3.0}
        assert server.infer(X, "scale")[1]["model_version"] == "2"
        # A file that can't be loaded leaves the old model in place.
        (models / "scale" / "2" / "model.gexe").unlink()
        (models / "scale" / "2" / "model.gexe").write_bytes(b"broken")
        assert server.json("POST", "/v2/repository/models/scale/load", {})[0] == 400
        assert server.infer(X, "scale")[0] == 200
        server.process.send_signal(signal.SIGHUP)
        time.sleep(0.5)
        assert server.infer(X, "scale")[0] == 200
        assert server.json("POST", "/v2/repository/models/other/unload", {})[0] == 200
        assert server.infer(X, "other")[0] == 404
    finally:
        over.set()
        assert server.stop() == 0


def test_new_versions_and_models_are_found(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    triple = compile_graph(tmp_path, GRAPH.replace("2.0", "3.0"), "triple")
    models = tmp_path / "models"

    def add(name: str, version: str, file: pathlib.Path) -> None:
        (models / name / version).mkdir(parents=True)
        shutil.copy(file, models / name / version / "model.gexe")

    def factor(name: str) -> float:
        status, answer = server.infer(X, name)
        return answer["outputs"][0]["data"][0] if status == 200 else status

    add("scale", "1", folder / "double.gexe")
    server = Server(tmp_path, models)
    try:
        add("scale", "2", triple)
        add("later", "1", triple)
        assert (factor("scale"), factor("later")) == (2, 404)
        assert server.json("POST", "/v2/repository/models/scale/load", {})[0] == 200
        assert (factor("scale"), factor("later")) == (3, 404)
        assert server.json("POST", "/v2/repository/models/later/load", {})[0] == 200
        assert factor("later") == 3
        add("last", "1", folder / "double.gexe")
        shutil.rmtree(models / "later")
        shutil.rmtree(models / "scale" / "2")
        server.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 10
        while factor("last") != 2 or factor("later") != 404:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert (factor("scale"), factor("later"), factor("last")) == (2, 404, 2)
    finally:
        assert server.stop() == 0


INTEGERS = """graph main(%x: i8[3], %u: u8[3]) -> (i8[3], u8[3]) {
  %a = neg(%x) : i8[3]
  %b = maximum(%u, %u) : u8[3]
  return %a, %b
}
"""


def test_integers_that_do_not_fit_are_refused(tmp_path: pathlib.Path) -> None:
    server = Server(tmp_path, compile_graph(tmp_path, INTEGERS, "integers"))

    def infer(x: list[int], u: list[int]) -> tuple[int, Any]:
        inputs = [
            {"name": n, "datatype": d, "shape": [3], "data": v}
            for n, d, v in (("x", "INT8", x), ("u", "UINT8", u))
        ]
        return server.json("POST", "/v2/models/integers/infer", {"inputs": inputs})

    try:
        status, answer = infer([-127, 0, 127], [0, 1, 255])
        assert status == 200, answer
        assert [o["data"] for o in answer["outputs"]] == [[127, 0, -127], [0, 1, 255]]
        for x, u in (([300, 0, 0], [0] * 3), ([0] * 3, [-1, 0, 0]), ([0, 0, -129], [0] * 3)):
            status, answer = infer(x, u)
            assert status == 400 and "takes integers from" in answer["error"]
    finally:
        assert server.stop() == 0


def test_shutdown_answers_what_is_under_way(folder: pathlib.Path) -> None:
    server = Server(folder, folder / "double.gexe", "--batch-delay-us", "300000")
    statuses: list[int] = []
    threads = [
        threading.Thread(target=lambda: statuses.append(server.infer(X)[0])) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.15)
    assert server.stop() == 0
    for thread in threads:
        thread.join()
    assert statuses == [200] * 4


def test_mistakes_of_the_command_line(folder: pathlib.Path) -> None:
    def refused(*words: str | pathlib.Path) -> str:
        made = subprocess.run(
            [GEX, "serve", *words], capture_output=True, text=True, timeout=30, check=False
        )
        assert made.returncode == 1
        return made.stderr

    file = folder / "double.gexe"
    assert "No such file" in refused(folder / "missing.gexe")
    assert "two models" in refused(file, file, "--trust")
    assert "--queue is at least 1" in refused(file, "--queue", "0")
    assert "--port is at most 65535, got 99999" in refused(file, "--port", "99999")
    assert "--grpc-port is at most 65535" in refused(file, "--grpc-port", "70000")
    assert "--threads is at most" in refused(file, "--threads", "5000000000")
    assert "needs a model file or a folder" in refused()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert "can't listen" in refused(file, "--trust", "--port", port)


def test_the_client_of_triton(server: Server) -> None:
    client_of = pytest.importorskip(
        "tritonclient.http", reason="tritonclient[http] is not installed"
    )
    client = client_of.InferenceServerClient(f"127.0.0.1:{server.port}")
    assert client.is_server_live() and client.is_model_ready("double")
    assert client.get_model_metadata("double")["name"] == "double"
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    for binary in (True, False):
        given = client_of.InferInput("x", [2, 4], "FP32")
        given.set_data_from_numpy(x, binary_data=binary)
        names = [o["name"] for o in client.get_model_metadata("double")["outputs"]]
        wanted = [client_of.InferRequestedOutput(n, binary_data=binary) for n in names]
        result = client.infer("double", [given], outputs=wanted)
        np.testing.assert_array_equal(result.as_numpy(names[0]), x * 2)
        np.testing.assert_array_equal(result.as_numpy(names[1]), (x * 2).sum(1).astype(np.int64))
    with pytest.raises(Exception, match="no input"):
        client.infer("double", [client_of.InferInput("z", [2, 4], "FP32")])


def test_load_with_bad_requests_loses_nothing() -> None:
    """bench/serve_load.py, in short: every request is answered rightly, and memory stays flat."""
    done = subprocess.run(
        [
            sys.executable,
            ROOT / "bench/serve_load.py",
            "--requests=2000",
            "--clients=2",
            "--bad=0.1",
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(done.stdout[done.stdout.index("{") :])["gex"]
    assert figures["right"] + figures["refused"] == figures["requests"] == 2000
    assert figures["refused"] > 100 and figures["memory"] == "flat"
