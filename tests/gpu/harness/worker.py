"""A worker process: reads units, one JSON string a line, and answers with one line of JSON each.

usage: worker.py KIND ARGUMENTS... with KIND the name of a module beside this one that has
`make(arguments)`, which returns the function of a unit.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from typing import Any


def _is_device_usable() -> bool:
    """After some faults the device is unusable in this process."""
    torch = sys.modules.get("torch")
    if torch is None or not (torch.cuda.is_available() and torch.cuda.is_initialized()):
        return True
    try:
        torch.cuda.synchronize()
        return bool((torch.ones(4, device="cuda") + 1).sum().item() == 8)
    except RuntimeError:
        return False


def main() -> None:
    # Output of tests must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(data: dict[str, Any]) -> None:
        answers.write(json.dumps(data) + "\n")
        answers.flush()

    run = importlib.import_module(sys.argv[1]).make(sys.argv[2:])
    answer({"ready": True})
    for line in sys.stdin:
        unit = json.loads(line)
        try:
            result = run(unit)
        except Exception as problem:  # every failure is a finding about the unit
            traceback.print_exc()
            result = {"outcome": "error", "detail": f"{type(problem).__name__}: {problem}"[:2000]}
        result["broken"] = not _is_device_usable()
        if result["broken"]:
            result["detail"] = result.get("detail", "") + " [the device is unusable afterwards]"
        answer(result)


if __name__ == "__main__":
    main()
