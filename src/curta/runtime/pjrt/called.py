"""Host functions called by programs, by any mechanism."""

from __future__ import annotations

from typing import Any, Final


class CalledByPrograms:
    """The functions of Python that a run of a program calls; kept until it is over."""

    def install(self, options: Any, devices: int) -> None:
        """Fill in PJRT_ExecuteOptions for a run on a number of devices."""


#: For runs that are followed to their end, but call nothing.
NOTHING_CALLED: Final = CalledByPrograms()
