# The extension module: its names are not typed here.
from typing import Any

def __getattr__(name: str) -> Any: ...
