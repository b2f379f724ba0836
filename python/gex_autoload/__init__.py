"""What `import torch` calls, by the entry point `torch.backends`, before it reads TORCH_LOGS."""

from __future__ import annotations

import os


def register() -> None:
    # Nothing of gex is imported, unless TORCH_LOGS names one of its logs.
    if "gex" in os.environ.get("TORCH_LOGS", ""):
        from gex.compat import torch_logs

        torch_logs.register()
