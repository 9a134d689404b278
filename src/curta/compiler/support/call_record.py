"""The record of a call by native code, and pieces of code that read objects.

An entry, what native code knows of a signature, is a tuple

    (record, rings, makers, spares, build, what the record points to ...)

`record` is a bytes object of 64-bit words: what `invoke_code` wants of the program and
its constants, the words below, the instructions that recognise arguments, the operands
that take several words, the names of keyword arguments, the order in which arguments
are walked through, and what is donated: for each result whether it lies in the memory
of an argument, then for each donated argument three words.

The table of a call begins as `invoke_code` has it; further areas follow.
"""

from __future__ import annotations

from curta._base.lazy_dataclass import dataclass
from curta.compiler.llvm.types import Value
from curta.compiler.support.invoke_code import (
    ARRAYS,
    CONSTANTS,
    HEAD_WORDS,
    RESULTS,
)
from curta.compiler.support.objects import at, pointer, word

# Words of a record, after what `invoke_code` wants of the program and its constants.
# ARGUMENTS and KEYWORDS count positional and keyword arguments, DONATED the
# donated ones. NAMES and DONATIONS are offsets in the record of what is said of
# keywords and donated arguments. The others are offsets in the table: of the leaves of
# the arguments, of the values of those that are numbers of Python, of the storage of
# leaves held for the call, after their number, of the storage of donated ones, of the
# arrays of results, of the objects held for the call, after their number, of a stack on
# which arguments are walked through, and of the end.
(
    ARGUMENTS,
    KEYWORDS,
    NAMES,
    CONTEXT,
    INSTRUCTIONS,
    DONATED,
    DONATIONS,
    LEAVES_AT,
    VALUES_AT,
    KEPT_AT,
    TAKEN_AT,
    MADE_AT,
    HELD_AT,
    STACK_AT,
    SIZE,
) = range(15)
OWN_WORDS = 15
# Of a donated argument: which array it is, the result of its type, and whether that
# lies in its memory.
LEAF, RESULT, OVERWRITTEN = range(3)
DONATION_WORDS = 3
# Instructions: what is expected, how many children, and a word: the address of the
# aval of an array, or of the class of a tuple, or the offset in the record of the keys
# of a dict, or of what is known of a number, of a static argument or of another node.
ARRAY, SCALAR, DICT, TUPLE, LIST, NONE, NODE, STATIC = range(8)
INSTRUCTION_WORDS = 3
# Of a number of Python: its class, and the dtype in which a program takes it. Of a
# static argument: its class, and the value.
KIND, VALUE = range(2)
BOOL, INT32, INT64, FLOAT32, FLOAT64 = range(5)
# The address of a leaf that is no array has this bit.
NUMBER = 1
# Of a node: its class, a function that makes a tuple of its children and its metadata,
# how many of these there are, and then they.
CLASS, PARTS, METADATA_COUNT, METADATA = range(4)
# Items of an entry.
RECORD, RINGS, MAKERS, SPARES, BUILD = range(5)
RING = 4  # results kept for each output


@dataclass(frozen=True)
class ObjectLayout:
    """Where the fields of arrays lie: bytes from the beginning of the object."""

    data: int
    aval: int
    device: int
    pending: int
    weak_references: int


class CallRecord:
    """A record as code reads it: what is asked for is loaded there and then."""

    def __init__(self, record: Value) -> None:
        self.address = record
        self._own: Value = at(record, word(record, CONSTANTS) + HEAD_WORDS)

    def word(self, offset: int) -> Value:
        """One of the words that are not of `invoke_code`."""
        return word(self._own, offset)

    def area(self, table: Value, offset: int) -> Value:
        """The address of an area of the table, of which a word says the offset."""
        return at(table, self.word(offset))

    @property
    def results(self) -> Value:
        """The number of results."""
        return word(self.address, RESULTS)

    @property
    def given(self) -> Value:
        """The number of arguments, positional and by keyword."""
        return self.word(ARGUMENTS) + self.word(KEYWORDS)

    @property
    def names(self) -> Value:
        """Where the names of keyword arguments begin."""
        return at(self.address, self.word(NAMES))

    @property
    def order(self) -> Value:
        """Where the numbers of the arguments begin, as they are walked through."""
        return at(self.names, self.word(KEYWORDS))

    @property
    def arrays(self) -> Value:
        """How many leaves there are among the arguments: arrays and numbers."""
        return word(self.address, ARRAYS) - self.results

    @property
    def context(self) -> Value:
        """The settings that the record is good for."""
        return pointer(self._own, CONTEXT)

    @property
    def instructions(self) -> Value:
        """Where the instructions begin."""
        return at(self._own, OWN_WORDS)

    @property
    def said(self) -> Value:
        """Where what is said of donated arguments begins.

        First are the flags that tell which results share storage with arguments.
        """
        return at(self.address, self.word(DONATIONS))

    @property
    def donations(self) -> Value:
        """Where the words of donated arguments begin."""
        return at(self.said, self.results)
