"""What became of each compiled graph. Reports are written while compiling."""

from gex.report.graph_report import GraphReport, add, collect, drop, reports

__all__ = ["GraphReport", "add", "collect", "drop", "reports"]
