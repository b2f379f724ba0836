"""gex serve --grpc-port: the KServe v2 protocol over gRPC, by the client of Triton."""

from __future__ import annotations

import pathlib
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from test_serve import BUILD, GEX, GRAPH, Server, compile_graph

pytestmark = pytest.mark.skipif(not GEX.exists(), reason="build/bin/gex is not built")


def test_a_build_without_grpc_says_so(tmp_path: pathlib.Path) -> None:
    """The library is looked for beside libgex: here in a folder that has the others alone."""
    for library in ("libgex.so.0.1", "libgex_core.so.0.1", "libgex_llvm.so"):
        shutil.copy(BUILD / "lib" / library, tmp_path)
    made = subprocess.run(
        [GEX, "serve", compile_graph(tmp_path, GRAPH, "m"), "--port", "0", "--grpc-port", "0"],
        env={"LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert made.returncode == 1
    assert "serves HTTP alone" in made.stderr and "libgrpc++-dev" in made.stderr
    assert made.stderr.count("\n") == 1


@pytest.fixture(scope="module")
def triton() -> Any:
    if not (BUILD / "lib" / "libgex_grpc.so").exists():
        pytest.skip("this build has no gRPC: libgrpc++-dev was not installed")
    return pytest.importorskip("tritonclient.grpc", reason="tritonclient[grpc] is not installed")


@pytest.fixture(scope="module")
def server(triton: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("grpc")
    words = ("--grpc-port", "0", "--max-body", "100000")
    server = Server(folder, compile_graph(folder, GRAPH, "double"), *words)
    yield server
    assert server.stop() == 0


@pytest.fixture
def client(triton: Any, server: Server) -> Iterator[Any]:
    with triton.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
        yield client


def input_of(triton: Any, x: np.ndarray, name: str = "x", datatype: str = "FP32") -> Any:
    given = triton.InferInput(name, list(x.shape), datatype)
    given.set_data_from_numpy(x)
    return given


X = np.arange(8, dtype=np.float32).reshape(2, 4)


def test_what_the_server_says_of_itself(client: Any) -> None:
    assert client.is_server_live() and client.is_server_ready()
    assert client.is_model_ready("double") and not client.is_model_ready("other")
    assert client.get_server_metadata().name == "gex"
    metadata = client.get_model_metadata("double")
    assert list(metadata.versions) == ["1"] and list(metadata.inputs[0].shape) == [-1, 4]
    assert [o.datatype for o in metadata.outputs] == ["FP32", "INT64"]
    assert client.get_model_repository_index().models[0].state == "READY"
    client.load_model("double")


def test_results(triton: Any, client: Any) -> None:
    names = [o.name for o in client.get_model_metadata("double").outputs]
    result = client.infer("double", [input_of(triton, X)], request_id="7")
    assert result.get_response().id == "7" and result.get_response().model_version == "1"
    np.testing.assert_array_equal(result.as_numpy(names[0]), X * 2)
    np.testing.assert_array_equal(result.as_numpy(names[1]), (X * 2).sum(1).astype(np.int64))
    wanted = [triton.InferRequestedOutput(names[1])]
    result = client.infer("double", [input_of(triton, X)], outputs=wanted)
    assert [o.name for o in result.get_response().outputs] == [names[1]]


def test_typed_contents(triton: Any, server: Server) -> None:
    grpc = pytest.importorskip("grpc")
    messages = triton.service_pb2
    request = messages.ModelInferRequest(model_name="double")
    given = request.inputs.add(name="x", datatype="FP32", shape=[2, 4])
    given.contents.fp32_contents.extend(X.ravel().tolist())
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        stub = triton.service_pb2_grpc.GRPCInferenceServiceStub(channel)
        answer = stub.ModelInfer(request)
        assert answer.raw_output_contents[0] == (X * 2).tobytes()
        given.contents.fp32_contents.pop()
        with pytest.raises(grpc.RpcError, match="7 elements in fp32_contents"):
            stub.ModelInfer(request)


def test_mistakes_have_a_status_and_the_service_stays_up(triton: Any, client: Any) -> None:
    def refused(*inputs: Any, model: str = "double", **more: Any) -> tuple[str, str]:
        with pytest.raises(triton.InferenceServerException) as caught:
            client.infer(model, list(inputs), **more)
        return caught.value.status(), caught.value.message()

    x = input_of(triton, X)
    invalid = "StatusCode.INVALID_ARGUMENT"
    assert refused(x, model="other")[0] == "StatusCode.NOT_FOUND"
    assert refused(x, model_version="9")[0] == "StatusCode.NOT_FOUND"
    assert refused() == (invalid, "input 'x' is missing")
    assert refused(x, x) == (invalid, "input 'x' is given twice")
    assert refused(input_of(triton, X, "y"))[0] == invalid
    doubles = input_of(triton, X.astype(np.float64), datatype="FP64")
    assert refused(doubles) == (invalid, "input 'x' takes FP32, got FP64")
    assert refused(input_of(triton, np.ones((2, 5), np.float32)))[0] == invalid
    too_large = input_of(triton, np.ones((10000, 4), np.float32))
    assert refused(too_large)[0] == "StatusCode.RESOURCE_EXHAUSTED"
    assert refused(x, client_timeout=1e-6)[0] == "StatusCode.DEADLINE_EXCEEDED"
    assert refused(x, outputs=[triton.InferRequestedOutput("z")])[0] == invalid
    assert client.infer("double", [x]) is not None


def test_a_stream_answers_each_request(triton: Any, client: Any) -> None:
    answers: list[Any] = []
    client.start_stream(lambda result, error: answers.append((result, error)))
    for k in range(5):
        name = "other" if k == 2 else "double"
        client.async_stream_infer(name, [input_of(triton, X + k)], request_id=str(k))
    client.stop_stream()
    assert [error is not None for _, error in answers] == [k == 2 for k in range(5)]
    assert "no model 'other'" in str(answers[2][1])
    ids = [result.get_response().id for result, error in answers if error is None]
    assert ids == ["0", "1", "3", "4"]


def test_many_callers_and_shutdown(triton: Any, tmp_path: pathlib.Path) -> None:
    path = compile_graph(tmp_path, GRAPH, "double")
    server = Server(tmp_path, path, "--grpc-port", "0", "--batch-delay-us", "2000")
    wrong: list[str] = []
    right: list[int] = []

    def work(k: int) -> None:
        with triton.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
            for turn in range(20):
                x = np.full((1 + k % 3, 4), k + turn, np.float32)
                y = client.infer("double", [input_of(triton, x)]).as_numpy("y")
                if y is None or not np.array_equal(y, x * 2):
                    wrong.append(f"{k} {turn}: {y}")
                right.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong, wrong[:2]
        assert len(right) == 120
        text = server.call("GET", "/metrics")[1].decode()
        assert 'gex_requests_total{model="double",status="200"} 120' in text
    finally:
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=30) == 0
