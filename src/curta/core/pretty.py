"""The text of jaxprs: `{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }`."""

from __future__ import annotations

import collections
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from curta.core import pretty_printer
from curta.core.avals import ShapedArray
from curta.core.jaxpr import (
    Atom,
    ClosedJaxpr,
    Eqn,
    Jaxpr,
    Literal,
    Var,
    jaxprs_in_params,
    set_printer,
)
from curta.core.name_stack import EMPTY, NameStack, shown_path
from curta.core.pretty_printer import Doc, concat, group, join, line_break, nest, text

_LONG = 10
"""A nested jaxpr of more eqns than this is printed before the one that uses it."""


class Settings(NamedTuple):
    """What the text shows; see `format_jaxpr`."""

    source_info: bool = False
    print_shapes: bool = True
    custom_pp_eqn_rules: bool = True
    print_effects: bool = False
    name_stack: bool = False
    path: NameStack | None = None
    types: Mapping[Var, ShapedArray] = {}


def format_jaxpr(
    jaxpr: Jaxpr,
    *,
    source_info: bool = False,
    print_shapes: bool = True,
    custom_pp_eqn_rules: bool = True,
    print_effects: bool = False,
    name_stack: bool = False,
    use_color: bool = False,
    path: NameStack | None = None,
    types: Mapping[Var, ShapedArray] = {},
) -> str:
    """The text of a jaxpr.

    Args:
        jaxpr: what to print.
        source_info: end each line with the user's line that made the eqn.
        print_shapes: give the type of each variable where it is bound.
        custom_pp_eqn_rules: leave out parameters that go without saying.
        print_effects: list the jaxpr's effects.
        name_stack: end each line with the scopes (`named_scope`) that it ran in.
        path: end each line with the path to the eqn, all that it is in and its op's
            name, and the user's line; the jaxpr is at `path` itself.
        types: what to show as the types of variables, for those whose own is another.
        use_color: mark keywords and types with terminal colours.

    Returns:
        The text, with a line for each eqn.

    Example:
        >>> import curta
        >>> from curta.core import format_jaxpr
        >>> print(format_jaxpr(curta.make_jaxpr(lambda x: x + 1)(2).jaxpr))
        { lambda ; a:i32[]. let b:i32[] = add a 1:i32[] in (b,) }
    """
    settings = Settings(
        source_info or path is not None,
        print_shapes,
        custom_pp_eqn_rules,
        print_effects,
        name_stack,
        path,
        types,
    )
    return pretty_printer.render(
        Printer(jaxpr, settings).document(), use_color=use_color
    )


def format_eqn(eqn: Eqn) -> str:
    """The text of one eqn, its variables named in order of appearance.

    >>> import curta
    >>> from curta.core import format_eqn
    >>> format_eqn(curta.make_jaxpr(lambda x: x + 1)(2).eqns[0])
    'a:i32[] = add b 1:i32[]'
    """
    printer = Printer(Jaxpr((), (), eqn.outvars, ()), Settings())
    return pretty_printer.render(printer.eqn(eqn)).rstrip()


def format_eqns(jaxpr: Jaxpr) -> list[str]:
    """The texts of the eqns of a jaxpr, one for each."""
    printer = Printer(jaxpr, Settings())
    for var in (*jaxpr.constvars, *jaxpr.invars):
        printer.name(var)
    return [pretty_printer.render(printer.eqn(eqn)).rstrip() for eqn in jaxpr.eqns]


class Printer:
    """The names given in the text of one outermost jaxpr."""

    fresh: Any
    path: NameStack
    shared: dict[Jaxpr, str]

    def __init__(self, jaxpr: Jaxpr, settings: Settings):
        self.jaxpr = jaxpr
        self.settings = settings
        self.shared = _shared_jaxprs(jaxpr)
        taken = set(self.shared.values())
        self.fresh = (n for n in map(_letters, itertools.count()) if n not in taken)
        self.names: dict[Var, str] = dict.fromkeys(_unread(jaxpr), "_")
        self.path = settings.path or EMPTY
        self.paths: dict[Jaxpr, NameStack] = {}

    def document(self) -> Doc:
        """The shared jaxprs, then the outermost one."""
        # Shared jaxprs are in no one equation: paths within them begin anew.
        path, self.path = self.path, EMPTY
        shared = [
            concat(
                [text(f"let {name} = "), self.skeleton(j), text(" in"), line_break()]
            )
            for j, name in self.shared.items()
        ]
        self.path = path
        return concat([*shared, self.nested(self.jaxpr)])

    def name(self, var: Var) -> str:
        """The letters that stand for a variable."""
        if var not in self.names:
            self.names[var] = next(self.fresh)
        return self.names[var]

    def suggest(self, inner: Sequence[Atom], outer: Sequence[Atom]) -> None:
        """Name the variables of a nested jaxpr as those that they alias."""
        used: set[Var] = set()
        for a, b in zip(inner, outer, strict=False):
            if type(a) is Var and type(b) is Var and b not in used:
                if a not in self.names:
                    used.add(b)
                    self.names[a] = self.name(b)

    # ---- documents

    def nested(self, jaxpr: Jaxpr) -> Doc:
        """A jaxpr, or its name if it is shared."""
        name = self.shared.get(jaxpr)
        if name is not None:
            return text(name)
        outer, self.path = self.path, self.paths.get(jaxpr, self.path)
        shown = self.skeleton(jaxpr)
        self.path = outer
        return shown

    def skeleton(self, jaxpr: Jaxpr) -> Doc:
        """`{ lambda constvars ; invars. let eqns in (outvars) }`."""
        constvars, invars = self.binders(jaxpr.constvars), self.binders(jaxpr.invars)
        eqns = join(line_break("; "), [self.eqn(e) for e in jaxpr.eqns])
        outvars = self.atoms(jaxpr.outvars, ",")
        end = ",)" if len(jaxpr.outvars) == 1 else ")"
        if self.settings.print_effects:
            end += f" : {{ {', '.join(sorted(map(str, jaxpr.effects)))} }}"
        body = [
            text("{ "),
            text("lambda ", pretty_printer.KEYWORD),
            constvars,
            text("; "),
            invars,
            text(". "),
            text("let", pretty_printer.KEYWORD),
            nest(2, line_break() + eqns),
            line_break(),
            text("in ", pretty_printer.KEYWORD),
            text("("),
            outvars,
            text(end),
        ]
        return group(nest(2, concat(body)) + text(" }"))

    def binders(self, variables: Sequence[Var]) -> Doc:
        """Variables as binders, with their types."""
        if not self.settings.print_shapes:
            return self.atoms(variables)
        types = [self.settings.types.get(v, v.aval) for v in variables]
        return _row(
            [
                text(self.name(v))
                + text(f":{aval.str_short(short_dtypes=True)}", pretty_printer.TYPE)
                for v, aval in zip(variables, types, strict=True)
            ]
        )

    def atoms(self, atoms: Sequence[Atom], separator: str = "") -> Doc:
        """Variables and literals as operands."""
        return _row([text(self.atom(x)) for x in atoms], separator)

    def atom(self, x: Atom) -> str:
        if type(x) is Literal:
            value = "[...]" if np.shape(x.val) else np.asarray(x.val).item()
            return f"{value}:{x.aval.str_short(short_dtypes=True)}"
        return self.name(x)  # type: ignore[arg-type]

    def eqn(self, eqn: Eqn) -> Doc:
        """`outvars = op[params] invars`."""
        brief = self.settings.custom_pp_eqn_rules
        params = eqn.op.printed_params(eqn) if brief else eqn.op.params()
        if brief and eqn.op.inlined_names:
            for inner in jaxprs_in_params(params):
                if inner not in self.shared:
                    self.suggest(inner.invars, eqn.invars)
                    self.suggest(inner.outvars, eqn.outvars)
        note = self.note(eqn)
        outvars = self.binders(eqn.outvars)
        if brief and (form := eqn.op.statement(self._is_used(eqn))):
            operands = [self.atom(x) for x in eqn.invars]
            parts = form.partition("{out}")[1:] if "{out}" in form else ("", form)
            shown = text(parts[-1].format(*operands), note=note)
            return concat([outvars, shown]) if parts[0] else shown
        first = "name" if brief else ""
        in_order = sorted(params.items(), key=lambda item: (item[0] != first, item[0]))
        rest = [
            text(eqn.op.printed_name),
            self.params(in_order),
            text(" "),
            self.atoms(eqn.invars),
        ]
        if not eqn.outvars:
            return concat(rest)
        return concat([outvars, text(" = ", note=note), *rest])

    def _is_used(self, eqn: Eqn) -> bool:
        return any(self.name(v) != "_" for v in eqn.outvars)

    def note(self, eqn: Eqn) -> str:
        """Where an eqn comes from, as far as that is asked for."""
        source = eqn.source_info
        names = f"[{source.name_stack}]" if self.settings.name_stack else ""
        location = str(source) if self.settings.source_info else ""
        path = "" if self.settings.path is None else shown_path(self.located(eqn))
        return f"{path} {location} {names}".strip()

    def located(self, eqn: Eqn) -> NameStack:
        """The path to an eqn; notes those of the jaxprs in it."""
        path, within = paths(eqn, self.path)
        self.paths.update(within)
        return path

    def params(self, params: Sequence[tuple[str, Any]]) -> Doc:
        """`[key=value ...]`."""
        if not params:
            return text("")
        pairs = [text(f"{key}=") + self.value(value) for key, value in params]
        inner = [text("["), line_break(""), join(line_break(), pairs)]
        return group(concat([nest(2, concat(inner)), line_break(""), text("]")]))

    def value(self, value: Any) -> Doc:
        """A parameter's value."""
        if isinstance(value, ClosedJaxpr):
            return self.nested(value.jaxpr)
        if isinstance(value, Jaxpr):
            return self.nested(value)
        if type(value) is tuple and all(
            isinstance(v, (Jaxpr, ClosedJaxpr)) for v in value
        ):
            inner = [text("("), line_break("")]
            inner.append(join(line_break(), [self.value(v) for v in value]))
            return group(concat([nest(2, concat(inner)), line_break(""), text(")")]))
        if isinstance(value, frozenset):
            return text(f"frozenset({{{', '.join(map(repr, sorted(value)))}}})")
        return text(re.sub(r" at 0x[0-9a-fA-F]+", _hidden_address, str(value)))


def paths(eqn: Eqn, outer: NameStack) -> tuple[NameStack, dict[Jaxpr, NameStack]]:
    """The path to an eqn of a jaxpr at `outer`, and to the jaxprs in it."""
    outer = outer + eqn.source_info.name_stack
    outer = outer if eqn.op.calls_function else outer.settled()
    within: dict[Jaxpr, NameStack] = {}
    for key, value in eqn.op.params().items():
        for i, inner in enumerate(jaxprs_in_params({key: value})):
            path = outer
            for name in eqn.op.scopes(key, i):
                path = path.extend(name)
            within[inner] = path
    return outer.extend(eqn.op.scope), within


def _row(docs: Sequence[Doc], separator: str = "") -> Doc:
    return nest(2, group(join(text(separator) + group(line_break()), docs)))


def _hidden_address(match: re.Match[str]) -> str:
    return " at 0x" + "X" * (len(match.group()) - len(" at 0x"))


def _letters(n: int) -> str:
    """a, b ... z, ba, bb ...: n in base 26."""
    result = ""
    while not result or n:
        n, digit = divmod(n, 26)
        result = chr(ord("a") + digit) + result
    return result


def _unread(jaxpr: Jaxpr) -> Iterator[Var]:
    """The variables bound by eqns that no eqn and no output reads."""
    read: set[Any] = {v for eqn in jaxpr.eqns for v in eqn.invars}
    read.update(jaxpr.outvars)
    return (v for eqn in jaxpr.eqns for v in eqn.outvars if v not in read)


def _shared_jaxprs(outermost: Jaxpr) -> dict[Jaxpr, str]:
    """The nested jaxprs printed first, with their names: long or used repeatedly."""
    names: dict[Jaxpr, str] = {}
    counts: collections.Counter[Jaxpr] = collections.Counter()
    waiting = collections.deque([outermost])
    while waiting:
        jaxpr = waiting.popleft()
        is_long = jaxpr is not outermost and len(jaxpr.eqns) > _LONG
        counts[jaxpr] += 2 if is_long else 1
        for eqn in jaxpr.eqns:
            params = eqn.op.params()
            nested = list(jaxprs_in_params(params))
            waiting.extend(nested)
            if params.get("name") is not None:
                for inner in nested:
                    names.setdefault(inner, params["name"].strip("<>"))
    shared: dict[Jaxpr, str] = {}
    uses: collections.Counter[str] = collections.Counter()
    for jaxpr, count in counts.items():
        if count > 1:
            name = base = names.get(jaxpr, "jaxpr")
            if uses[base]:
                uses[base] += 1
                name = f"{base}{uses[base] - 1}"
            uses[name] += 1
            shared[jaxpr] = name
    return shared


set_printer(format_jaxpr, format_eqn)
