"""Reports on compiled graphs, written while compiling.

The package is also the function `gex.report`: see page.py.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from gex.report.graph_report import GraphReport, add, collect, drop, reports

__all__ = ["GraphReport", "add", "collect", "drop", "reports"]


class _CallableModule(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from gex.report import page

        return page.report(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
