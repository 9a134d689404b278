"""Numbers as people read them."""

from __future__ import annotations

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def sized(count: float) -> str:
    """A number of bytes as people read it.

    >>> sized(3 << 20), sized(17)
    ('3.0 MiB', '17 bytes')
    """
    power = 0
    while count >= 1024 and power < len(_UNITS) - 1:
        count, power = count / 1024, power + 1
    return f"{count:.{min(power, 1)}f} {_UNITS[power]}"


def timed(seconds: float) -> str:
    """A duration as people read it, in three digits.

    >>> timed(2.5), timed(0.0123), timed(4.56e-7)
    ('2.50 s', '12.3 ms', '456 ns')
    """
    scales = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
    unit = next((u for u, scale in scales.items() if seconds >= scale), "ns")
    value = seconds / scales[unit]
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{digits}f} {unit}"
