"""`debug.breakpoint`: a look around where a program is, while it runs.

The frames are those in which the function was traced. Traced values in them are passed
to a callback, which shows them as they are when the program comes there.
"""

from __future__ import annotations

import cmd
import dataclasses
import inspect
import pprint
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from types import FrameType
from typing import IO, Any

from curta import tree_util
from curta._base.lazy_dataclass import dataclass
from curta._base.once import Lock
from curta.api.callbacks import debug_callback, pure_callback
from curta.core.shape_struct import ShapeDtypeStruct
from curta.core.source_info import is_users
from curta.core.trace import Tracer, typeof
from curta.primitives.elementwise.convert import stop_gradient


class _CannotFlatten:
    """Shown for leaves, and may hold traced values."""

    def __repr__(self) -> str:
        return "<cant_flatten>"


CANNOT_FLATTEN = _CannotFlatten()


@dataclass(frozen=True)
class DebuggerFrame:
    """A frame of the program: its source, and its variables."""

    filename: str
    lineno: int
    source: tuple[str, ...]
    offset: int | None  # of the line in the source
    variables: dict[str, Any]
    global_variables: dict[str, Any]

    @classmethod
    def of(cls, frame: FrameType) -> DebuggerFrame:
        """The state of a frame now."""
        try:
            lines, start = inspect.getsourcelines(frame)
        except (OSError, TypeError):
            lines, start = [], 0
        source = (*(line.rstrip("\n") for line in lines), "")
        offset = frame.f_lineno - max(start, 1)
        known = 0 <= offset < len(source)
        return cls(
            frame.f_code.co_filename,
            frame.f_lineno,
            source,
            offset if known else None,
            {name: _flattenable(x) for name, x in frame.f_locals.items()},
            frame.f_globals,
        )


def _flattenable(x: Any) -> Any:
    try:
        tree_util.tree_leaves(x)
    except Exception:  # dictionaries whose keys have no order, for example
        return CANNOT_FLATTEN
    return x


class CommandLine(cmd.Cmd):
    """The debugger at a terminal. `help` lists the commands."""

    index: int

    prompt = "(jdb) "
    intro: str | None = "Entering jdb:"

    def __init__(
        self,
        frames: Sequence[DebuggerFrame],
        stdin: IO[str] | None = None,
        stdout: IO[str] | None = None,
    ):
        super().__init__(stdin=stdin, stdout=stdout)
        self.use_rawinput: bool = stdin is None
        self.frames = frames
        self.index = 0

    def run(self) -> None:
        """Take commands until one of them is to go on."""
        while True:
            try:
                self.cmdloop()
                return
            except KeyboardInterrupt:
                self.show("--KeyboardInterrupt--")

    def show(self, text: str) -> None:
        """Print a line."""
        print(text, file=self.stdout)

    def emptyline(self) -> bool:
        return False

    def default(self, line: str) -> None:
        self.show_value(line, repr)

    def show_value(self, expression: str, form: Callable[[Any], str]) -> None:
        """Print the value of an expression in the current frame, or its error."""
        frame = self.frames[self.index]
        try:
            names = {**frame.global_variables, **frame.variables}
            self.show(form(eval(expression, names)))
        except Exception as error:
            self.show("*** " + traceback.format_exception_only(error)[-1].strip())

    def do_p(self, arg: str) -> None:
        """p expression: print its value."""
        self.show_value(arg, repr)

    def do_pp(self, arg: str) -> None:
        """pp expression: pretty-print its value."""
        self.show_value(arg, pprint.pformat)

    def do_list(self, arg: str, around: int = 5) -> None:
        """l(ist): the source around the current line."""
        frame = self.frames[self.index]
        self.show(f"> {frame.filename}({frame.lineno})")
        if frame.offset is None:
            self.show("    <no source>")
            return
        first = max(frame.offset - around - 1, 0)
        for i, line in enumerate(frame.source):
            if first <= i <= frame.offset + around:
                self.show(("->  " if i == frame.offset else "    ") + line)

    def do_up(self, arg: str) -> None:
        """u(p): to the frame that called this one."""
        self._move(1, "At topmost frame.")

    def do_down(self, arg: str) -> None:
        """d(own): to the frame that this one called."""
        self._move(-1, "At bottommost frame.")

    def _move(self, step: int, end: str) -> None:
        if 0 <= self.index + step < len(self.frames):
            self.index += step
        else:
            self.show(end)
        self.do_list("", around=2)

    def do_where(self, arg: str) -> None:
        """w(here), bt: the frames, the innermost last."""
        self.show("Traceback:")
        for frame in reversed(self.frames):
            self.show(f'  File "{frame.filename}", line {frame.lineno}')
            known = frame.offset is not None
            line = frame.source[frame.offset].strip() if known else "<no source>"  # type: ignore[index]
            self.show(f"    {line}")

    def do_continue(self, arg: str) -> bool:
        """c(ont(inue)): let the program go on."""
        return True

    def do_quit(self, arg: str) -> None:
        """q(uit), exit: end the process."""
        sys.exit(0)

    do_l = do_list
    do_u, do_d = do_up, do_down
    do_w = do_bt = do_where
    do_c = do_cont = do_continue
    do_q = do_exit = do_EOF = do_quit


def _command_line(frames: Sequence[DebuggerFrame], thread: Any, **options: Any) -> None:
    CommandLine(frames, **options).run()


# By name, with priorities.
_debuggers: dict[str, tuple[int, Callable[..., None]]] = {"cli": (-1, _command_line)}
_one_at_a_time = Lock()


def register_debugger(name: str, debugger: Callable[..., None], priority: int) -> None:
    """Let `breakpoint` call `debugger(frames, thread_id, **options)`.

    Of those registered, the one of the highest priority is the default.

    Raises:
      ValueError: if there is one of that name.
    """
    if name in _debuggers:
        raise ValueError(f'Debugger with name "{name}" already registered.')
    _debuggers[name] = priority, debugger


def breakpoint(
    *,
    backend: str | None = None,
    filter_frames: bool = True,
    num_frames: int | None = None,
    ordered: bool = False,
    token: Any = None,
    **options: Any,
) -> Any:
    """Stop where the program comes here, and take commands.

    Works within compiled and transformed functions; under `vmap` it stops for each
    example. Commands are those of pdb, as far as nothing can be stepped through:
    `p`, `pp`, `l`, `bt`, `u`, `d`, `c`, `q`.

    Args:
      backend: the name of a debugger; the one at the terminal is "cli". If there is
        none of that name, the default is taken, as in JAX.
      filter_frames: whether to leave out the frames of Curta itself.
      num_frames: how many frames to show, the innermost ones; all if None.
      ordered: whether the order among debugging callbacks matters. They are made in
        the order of the program in any case.
      token: a pytree of arrays, which is returned. The program stops when they are
        there, if it uses what is returned.
      **options: for the debugger; that at the terminal takes `stdin` and `stdout`.

    Returns:
      The token, or None.

    Raises:
      ValueError: for `ordered` together with `token`.

    >>> import curta
    >>> def f(x):
    ...     curta.debug.breakpoint()  # stops when `f` runs, not when it is traced
    ...     return 2 * x
    >>> curta.jit(f).trace(1.0).out_info
    ShapeDtypeStruct(shape=(), dtype=float32, weak_type=True)
    """
    if token is not None and ordered:
        raise ValueError(
            "`ordered` and `token` are mutually exclusive arguments. With a token, the"
            " the values passed along determine the order."
        )
    frames = [f for f in _stack() if not filter_frames or is_users(f.f_code)]
    states = [DebuggerFrame.of(f) for f in frames[:num_frames]]
    values = [list(s.variables.values()) for s in states]
    leaves, tree = tree_util.tree_flatten(values)
    live = [i for i, x in enumerate(leaves) if _is_live(x)]
    traced = [leaves[i] for i in live]

    def stop(*arrays: Any) -> None:
        for i, x in zip(live, arrays, strict=True):
            leaves[i] = x
        concrete = tree_util.tree_unflatten(tree, leaves)
        shown = [
            dataclasses.replace(s, variables=dict(zip(s.variables, xs, strict=True)))
            for s, xs in zip(states, concrete, strict=True)
        ]
        here = threading.current_thread()
        thread = None if here is threading.main_thread() else here.ident
        with _one_at_a_time:
            _debugger(backend)(shown, thread, **options)

    if token is None:
        debug_callback(stop, *traced, ordered=ordered)
        return None
    return _when_there(stop, token, traced)


def _when_there(stop: Callable[..., None], token: Any, traced: Sequence[Any]) -> Any:
    """`token`, which is there after `stop` was called on the traced values."""

    def call(token: Any, *arrays: Any) -> Any:
        stop(*arrays)
        return token

    token, traced = tree_util.tree_map(stop_gradient, (token, list(traced)))
    avals = tree_util.tree_map(lambda x: ShapeDtypeStruct.of_aval(typeof(x)), token)
    return pure_callback(call, avals, token, *traced, vmap_method="sequential")


def _debugger(backend: str | None) -> Callable[..., None]:
    if backend in _debuggers:
        return _debuggers[backend][1]
    return max(_debuggers.values(), key=lambda entry: entry[0])[1]


def _stack() -> list[FrameType]:
    """The frames outside this module, the innermost first."""
    frame: FrameType | None = sys._getframe(2)
    result = []
    while frame is not None:
        result.append(frame)
        frame = frame.f_back
    return result


def _is_live(x: Any) -> bool:
    """Return True if `x` is a value of a trace that is at work."""
    return isinstance(x, Tracer) and not x._trace.finished
