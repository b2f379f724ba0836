"""Memory of a process on the CPU, as counted by the kernel.

Bytes are resident memory beyond what the process had when the shim was installed, whoever allocated
it. Peaks are the kernel's high-water mark.
"""

from __future__ import annotations

from typing import Any

_STATUS = "/proc/self/status"
_RESET = "/proc/self/clear_refs"
_RESET_PEAK = "5"


def _status(field: str) -> int:
    with open(_STATUS) as file:
        for line in file:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"{_STATUS} has no field {field}: this kernel does not count memory")


class ProcessMemory:
    def __init__(self) -> None:
        self._start = _status("VmRSS")
        # If the high-water mark can't be reset, the maximum seen since the last reset is used.
        self._mark_at_reset = 0
        self._seen = 0

    def allocated(self) -> int:
        now = _status("VmRSS")
        self._seen = max(self._seen, now)
        return max(0, now - self._start)

    def peak(self) -> int:
        current, mark = self.allocated(), _status("VmHWM")
        highest = mark if mark > self._mark_at_reset else self._seen
        return max(current, highest - self._start)

    def reset_peak(self) -> None:
        try:
            with open(_RESET, "w") as file:
                file.write(_RESET_PEAK)
            self._mark_at_reset = 0
        except OSError:
            self._mark_at_reset = _status("VmHWM")
        self._seen = 0

    def of_machine(self) -> tuple[int, int]:
        """Free and total bytes of the machine."""
        fields: dict[str, int] = {}
        with open("/proc/meminfo") as file:
            for line in file:
                name, value = line.split(":")
                fields[name] = int(value.split()[0]) * 1024
        return fields["MemAvailable"], fields["MemTotal"]

    def stats(self) -> dict[str, Any]:
        current, peak = self.allocated(), self.peak()
        stats: dict[str, Any] = {}
        for kind in ("active_bytes", "allocated_bytes", "reserved_bytes"):
            stats[f"{kind}.all.current"] = current
            stats[f"{kind}.all.peak"] = peak
        return stats

    def summary(self) -> str:
        free, total = self.of_machine()
        rows = [
            ("resident since the start", self.allocated()),
            ("peak", self.peak()),
            ("free on the machine", free),
            ("total on the machine", total),
        ]
        return "\n".join(f"{name:<26}{value / 2**20:>12.1f} MiB" for name, value in rows)
