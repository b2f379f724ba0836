"""Plots of docs/plots: a dot for each backend on a logarithmic scale, else bars from zero."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_OURS = ["#4f46e5", "#9b8cff", "#c7bfff"]
_PEERS = ["#8a94a6", "#e0872b", "#2f9e77", "#c9a227"]
_TEXT, _SOFT, _GRID = "#1b2230", "#5d6778", "#e4e8ee"


def figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _colours(entry: dict[str, Any]) -> dict[str, str]:
    """Peers are muted, what gex does is not."""
    peers = [c for c in entry["columns"] if c in _peers(entry)]
    ours = [c for c in entry["columns"] if c not in peers]
    return {
        **{column: _PEERS[k % len(_PEERS)] for k, column in enumerate(peers)},
        **{column: _OURS[k % len(_OURS)] for k, column in enumerate(ours)},
    }


def _peers(entry: dict[str, Any]) -> set[str]:
    known = {"eager", "aot_eager", "inductor", "onnxruntime", "openvino"}
    return known.union(entry.get("peers", []))


def _dots(axes: Any, entry: dict[str, Any], colours: dict[str, str]) -> None:
    for y, row in enumerate(entry["rows"]):
        values = [v for c in entry["columns"] if (v := row["values"].get(c)) is not None]
        axes.plot([min(values), max(values)], [y, y], color=_GRID, linewidth=3, zorder=1)
    for k, column in enumerate(entry["columns"]):
        known = [
            (r["values"][column], y) for y, r in enumerate(entry["rows"]) if column in r["values"]
        ]
        size = 34 if column in _peers(entry) else 64
        xs, ys = zip(*known)
        axes.scatter(xs, ys, s=size, color=colours[column], label=column, zorder=2 + k)
    best = [c for c in entry["columns"] if c not in _peers(entry)]
    for y, row in enumerate(entry["rows"]):
        values = [v for c in best if (v := row["values"].get(c)) is not None]
        if values:
            axes.annotate(
                figure(min(values)),
                (min(values), y),
                (0, 8),
                textcoords="offset points",
                ha="center",
                fontsize=8,
                color=_TEXT,
                fontweight="bold",
            )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: figure(value))
    axes.set_yticks(range(len(entry["rows"])), [row["name"] for row in entry["rows"]])


def _bars(axes: Any, entry: dict[str, Any], colours: dict[str, str]) -> None:
    columns = entry["columns"]
    height = 0.8 / len(columns)
    for k, column in enumerate(columns):
        known = [
            (i + k * height, r["values"][column])
            for i, r in enumerate(entry["rows"])
            if column in r["values"]
        ]
        places, values = zip(*known)
        bars = axes.barh(places, values, height * 0.86, color=colours[column], label=column)
        axes.bar_label(bars, [figure(v) for v in values], padding=3, fontsize=8, color=_SOFT)
    middle = 0.4 - height / 2
    axes.set_yticks(
        [i + middle for i in range(len(entry["rows"]))], [row["name"] for row in entry["rows"]]
    )
    axes.margins(x=0.09)


def _limits(axes: Any, entry: dict[str, Any], dots: bool) -> None:
    low, high = (-0.1, 0.32) if dots else (-0.2, 0.7)
    label: str | None = f"limit ({entry.get('limit')})"
    for y, row in enumerate(entry["rows"]):
        if "limit" in row:
            axes.plot([row["limit"]] * 2, [y + low, y + high], color=_TEXT, label=label)
            label = None


def draw(path: Path, entry: dict[str, Any], metadata: dict[str, str]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    dots = bool(entry.get("log"))
    rows, columns = entry["rows"], entry["columns"]
    height = 1.5 + (0.36 * len(rows) if dots else 0.24 * len(rows) * max(1.6, len(columns)))
    with pyplot.rc_context({"font.size": 10, "text.color": _TEXT, "axes.labelcolor": _SOFT}):
        drawing, axes = pyplot.subplots(figsize=(9, height), layout="constrained")
        (_dots if dots else _bars)(axes, entry, _colours(entry))
        _limits(axes, entry, dots)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.spines["bottom"].set_color(_GRID)
        axes.tick_params(colors=_SOFT, length=0)
        axes.tick_params(axis="y", labelcolor=_TEXT)
        axes.grid(axis="x", color=_GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.set_ylim(len(rows) - (0.4 if dots else 0.1), -0.7)
        better = "less" if entry.get("smaller_is_better", True) else "more"
        axes.set_xlabel(f"{entry['unit']} ({better} is better)")
        axes.set_title(entry["title"], loc="left", fontweight="bold", pad=26)
        if len(columns) > 1 or any("limit" in row for row in rows):
            axes.legend(
                loc="lower left",
                bbox_to_anchor=(0, 1),
                ncols=6,
                frameon=False,
                fontsize=9,
                borderaxespad=0.2,
                handletextpad=0.3,
                columnspacing=1.4,
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        drawing.savefig(path, dpi=100, metadata={**metadata, "Software": None})
        pyplot.close(drawing)
