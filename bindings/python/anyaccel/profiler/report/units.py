"""Formats numbers as text."""


def seconds(ns: float) -> str:
    """A time, for example "1.25 ms"."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if abs(ns) >= size:
            return f"{_short(ns / size)} {unit}"
    return f"{ns:.0f} ns"


def size(count: float) -> str:
    """A number of bytes, for example "1.5 MiB"."""
    for unit, factor in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(count) >= factor:
            return f"{_short(count / factor)} {unit}"
    return f"{count:.0f} B"


def rate(per_second: float, unit: str) -> str:
    """A rate, for example "1.5 TFLOP/s"."""
    for prefix, factor in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if per_second >= factor:
            return f"{_short(per_second / factor)} {prefix}{unit}/s"
    return f"{_short(per_second)} {unit}/s"


def percent(part: float, whole: float) -> str:
    """A share, for example "12 %"."""
    share = 100 * part / whole if whole > 0 else 0.0
    return f"{share:.1f} %" if 0 < share < 9.95 else f"{share:.0f} %"


def of_peak(share: float) -> str:
    """A share of the measured peak. Shares above 100 % say only that the measured peak is too low for
    the op: it was measured on a busy machine, or the op's data was in a cache.
    """
    return f"{'> 100 %' if share > 1 else percent(share, 1)} of peak"


def _short(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 99.95 else f"{value:.3g}"
