"""examples/ray_serve.py: two replicas, one of which is killed under load; no request is lost."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'ray[serve]'")
serve = pytest.importorskip(
    "ray.serve", reason="Ray Serve is not installed: pip install 'ray[serve]'"
)

import gex  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GRAPH = """symbols n in [1, 64]
graph main(%x: f32[n, 8]) -> (f32[n, 8]) {
  %y = tanh(%x) : f32[n, 8]
  return %y
}
"""


@pytest.fixture
def replicas(tmp_path: pathlib.Path) -> Iterator[Any]:
    (tmp_path / "m.gex").write_text(GRAPH)
    binary = pathlib.Path(os.environ.get("GEX_BUILD_DIR", ROOT / "build")) / "bin" / "gex"
    subprocess.run([binary, "compile", tmp_path / "m.gex", "-o", tmp_path / "m.gexe"], check=True)
    spec = importlib.util.spec_from_file_location("ray_serve", ROOT / "examples" / "ray_serve.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["ray_serve"] = module
    spec.loader.exec_module(module)
    paths = [str(pathlib.Path(gex.__file__).parents[1]), str(ROOT / "examples")]
    paths += filter(None, [os.environ.get("PYTHONPATH")])
    environment = {"env_vars": {"PYTHONPATH": os.pathsep.join(paths)}}
    ray.init(num_cpus=4, include_dashboard=False, runtime_env=environment)
    try:
        serve.start(proxy_location="Disabled")
        yield serve.run(module.application(str(tmp_path / "m.gexe")))
    finally:
        serve.shutdown()
        ray.shutdown()


def test_a_replica_that_is_killed_loses_no_request(replicas: Any) -> None:
    processes: set[int] = set()
    for _ in range(200):
        processes.add(replicas.process.remote().result())
        if len(processes) == 2:
            break
    assert len(processes) == 2
    x = np.linspace(-1, 1, 8, dtype=np.float32)[None]
    answers: list[Any] = []
    lock = threading.Lock()

    def client(requests: int) -> None:
        for _ in range(requests):
            answer = replicas.infer.remote({"x": x.tolist()}).result(timeout_s=60)
            with lock:
                answers.append(answer)

    clients = [threading.Thread(target=client, args=(100,)) for _ in range(4)]
    for thread in clients:
        thread.start()
    os.kill(processes.pop(), signal.SIGKILL)
    for thread in clients:
        thread.join()
    assert len(answers) == 400
    for answer in answers:
        np.testing.assert_allclose(next(iter(answer.values())), np.tanh(x), rtol=1e-5)
