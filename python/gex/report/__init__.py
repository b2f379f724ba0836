"""Reports on compiled graphs, written while compiling."""

from gex.report.graph_report import GraphReport, add, collect, drop, reports

__all__ = ["GraphReport", "add", "collect", "drop", "reports"]
