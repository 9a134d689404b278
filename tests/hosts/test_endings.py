"""The recorded reason for the end of a process."""

import subprocess
import sys
import textwrap

import pytest

ENDS = {
    "exit": ("sys.exit(3)", "sys.exit(3)", 3),
    "finally": (
        """
        def f():
            try:
                sys.exit(3)
            finally:
                print("finally")
        f()
        """,
        "sys.exit(3)",
        3,
    ),
    "with": (
        """
        def f():
            with open(sys.executable):
                with open(sys.executable):
                    sys.exit(3)
        with open(sys.executable):
            f()
        """,
        "sys.exit(3)",
        3,
    ),
    "raised again": (
        """
        try:
            sys.exit(3)
        except SystemExit:
            raise
        """,
        "sys.exit(3)",
        3,
    ),
    "in order": ("print(1)", None, 0),
    "caught": (
        """
        try:
            sys.exit(3)
        except SystemExit:
            pass
        """,
        None,
        0,
    ),
    "caught in a function": (
        """
        def f():
            try:
                sys.exit(3)
            except SystemExit:
                return 1
        f()
        f()
        """,
        None,
        0,
    ),
    "caught above": (
        """
        import contextlib
        def f():
            sys.exit(3)
        with contextlib.suppress(SystemExit):
            f()
        print(1)
        """,
        None,
        0,
    ),
    "uncaught": ("1 / 0", "ZeroDivisionError: division by zero", 1),
}


@pytest.mark.parametrize("how", ENDS)
def test_reasons(how):
    body, reason, status = ENDS[how]
    program = textwrap.dedent("""
        import sys
        from curta.hosts.endings import Endings
        Endings(lambda reason, status: print("end", [reason, status], flush=True))
    """) + textwrap.dedent(body)
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100
    )
    assert ended.returncode == status
    assert ended.stdout.splitlines()[-1] == f"end {[reason, status]}"
