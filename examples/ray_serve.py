"""Replicas of a model file with Ray Serve: a replica that dies is replaced, and requests go to the others.

    python examples/ray_serve.py model.gexe --replicas 2 --port 8000
    curl -d '{"image": [[...]]}' http://127.0.0.1:8000/

A request is a JSON object with a list for each input, and so is the answer. Ray starts the replicas,
spreads requests over them and restarts those that end; each replica maps the same file, so that the
weights are in memory once.
"""

from __future__ import annotations

import argparse
import os
import signal
from typing import Any

import numpy as np
from ray import serve
from starlette.requests import Request

import gex


@serve.deployment(max_ongoing_requests=16)
class Model:
    """One replica: a session of the file."""

    def __init__(self, path: str, threads: int) -> None:
        self.session = gex.load(path, trust=True, threads=threads)

    def infer(self, inputs: dict[str, Any]) -> dict[str, Any]:
        arrays = {
            port.name: np.asarray(inputs[port.name], dtype=port.type)
            for port in self.session.inputs
        }
        results = self.session.run(arrays)
        names = [port.name for port in self.session.outputs]
        return {name: np.asarray(y).tolist() for name, y in zip(names, results, strict=True)}

    async def __call__(self, request: Request) -> dict[str, Any]:
        return self.infer(await request.json())

    def process(self) -> int:
        return os.getpid()

    def check_health(self) -> None:
        """Ray replaces a replica that raises here; one that has ended is noticed anyway."""


def application(path: str, replicas: int = 2, threads: int = 1) -> serve.Application:
    return Model.options(num_replicas=replicas).bind(os.path.abspath(path), threads)


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
