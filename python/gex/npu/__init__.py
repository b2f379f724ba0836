"""Runs scripts written for Ascend NPUs on CUDA or, without it, on the CPU.

`python -m gex.npu script.py arguments...` runs a script unchanged; `gex.npu.install()` changes the
current process. Importing this package alone changes nothing.
"""


def install() -> None:
    """Maps "npu" onto CUDA or the CPU for the rest of this process; a second call does nothing."""
    from gex.npu.installation import install

    install()


def installed() -> bool:
    from gex.npu.installation import installed

    return installed()
