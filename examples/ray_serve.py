"""Replicas of a model file with Ray Serve: one that ends is replaced, requests go to the others.

    python examples/ray_serve.py model.gexe --replicas 2 --port 8000
    curl -d '{"image": [[...]]}' http://127.0.0.1:8000/

A request is a JSON object with a list for each input, and so is the answer. Ray starts replicas,
spreads requests over them and restarts those that end; each replica maps the same file, so that the
weights are in memory once. The front sends a request again whose replica ended meanwhile: a model
computes the same for the same inputs.
"""

from __future__ import annotations

import argparse
import os
import signal
from typing import Any

import numpy as np
from ray import serve
from ray.exceptions import RayActorError
from ray.serve.handle import DeploymentHandle
from starlette.requests import Request

import gex

DTYPES = {"f32": "float32", "f64": "float64", "f16": "float16", "bool": "bool", "u8": "uint8"}
DTYPES |= {f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)}
ATTEMPTS = 5


@serve.deployment(max_ongoing_requests=16)
class Model:
    """One replica: a session of the file."""

    def __init__(self, path: str, threads: int) -> None:
        self.session = gex.load(path, trust=True, threads=threads)

    def infer(self, inputs: dict[str, Any]) -> dict[str, Any]:
        arrays = {
            port.name: np.asarray(inputs[port.name], dtype=DTYPES[port.dtype])
            for port in self.session.inputs
        }
        return {name: np.asarray(y).tolist() for name, y in self.session.run(arrays).items()}

    def process(self) -> int:
        return os.getpid()

    def check_health(self) -> None:
        """Ray replaces a replica that raises here; one that has ended is noticed anyway."""


@serve.deployment(max_ongoing_requests=64)
class Front:
    """Takes requests and gives them to replicas."""

    def __init__(self, model: DeploymentHandle) -> None:
        self.model = model

    async def infer(self, inputs: dict[str, Any]) -> dict[str, Any]:
        for attempt in range(ATTEMPTS):
            try:
                return await self.model.infer.remote(inputs)
            except RayActorError:
                if attempt + 1 == ATTEMPTS:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def __call__(self, request: Request) -> dict[str, Any]:
        return await self.infer(await request.json())

    async def process(self) -> int:
        return await self.model.process.remote()


def application(path: str, replicas: int = 2, threads: int = 1) -> serve.Application:
    return Front.bind(Model.options(num_replicas=replicas).bind(os.path.abspath(path), threads))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--port", type=int, default=8000)
    arguments = parser.parse_args()
    serve.start(http_options={"port": arguments.port})
    serve.run(application(arguments.model, arguments.replicas, arguments.threads))
    signal.sigwait({signal.SIGINT, signal.SIGTERM})
    serve.shutdown()


if __name__ == "__main__":
    main()
