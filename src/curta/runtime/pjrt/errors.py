"""Errors of plugins, as JAX words them: a status word, a colon, the message."""

from __future__ import annotations

from curta.errors import JaxRuntimeError
from curta.runtime.pjrt.abi import STATUS


def status_word(code: int) -> str:
    """The word for a PJRT_Error_Code.

    >>> status_word(3), status_word(99)
    ('INVALID_ARGUMENT', 'UNKNOWN_CODE_99')
    """
    return STATUS[code] if 0 <= code < len(STATUS) else f"UNKNOWN_CODE_{code}"


def runtime_error(code: int, message: str) -> JaxRuntimeError:
    """The exception for an error of a plugin.

    >>> runtime_error(8, "Out of memory")
    JaxRuntimeError('RESOURCE_EXHAUSTED: Out of memory')
    """
    return JaxRuntimeError(f"{status_word(code)}: {message}")


def status_of(error: BaseException) -> str:
    """The status word of an exception; that of Python's own is INTERNAL.

    >>> status_of(runtime_error(5, "no key")), status_of(KeyError("x"))
    ('NOT_FOUND', 'INTERNAL')
    """
    word = str(error).partition(":")[0]
    is_ours = isinstance(error, JaxRuntimeError) and word in STATUS
    return word if is_ours else "INTERNAL"
