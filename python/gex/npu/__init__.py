"""Runs scripts written for Ascend NPUs on CUDA or, without it, on the CPU.

`python -m gex.npu script.py arguments...` runs a script unchanged; `gex.npu.install()` changes the
process that calls it. Importing this package alone changes nothing.
"""

from gex.npu.installation import install, installed

__all__ = ["install", "installed"]
