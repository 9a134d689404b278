"""A PJRT plugin in Python: functions behind a table of the interface.

It has the functions that a test gives it, of the version that it says, and checks the
sizes of structs as plugins do.
"""

import ctypes
from collections import deque

from curta.runtime.pjrt.abi import FUNCTIONS, FUNCTIONS_OFFSET, STATUS, structs
from curta.runtime.pjrt.library import FUNCTION, Library


class FakeError(Exception):
    def __init__(self, status, message):
        self.status, self.message = status, message


class Fake:
    """A plugin of a version, with functions of structs by their names.

    `sizes` are sizes of structs that it wants, by their names in C.
    """

    def __init__(self, functions=None, version=(0, 105), sizes=None, known=None):
        self.sizes = sizes or {}
        self.errors = {}
        self.calls = deque()
        rules = {
            "Error_Message": self.error_message,
            "Error_GetCode": self.error_code,
            "Error_Destroy": self.error_destroy,
            "Plugin_Initialize": lambda args: None,
            **(functions or {}),
        }
        names = FUNCTIONS[:known]
        count = len(names)
        self.table = (ctypes.c_size_t * (FUNCTIONS_OFFSET // 8 + count))()
        self.table[0] = ctypes.sizeof(self.table)
        self.table[4] = version[0] | version[1] << 32
        self.keep = []
        for i, name in enumerate(names):
            if name in rules:
                function = FUNCTION(self.wrapped(name, rules[name]))
                self.keep.append(function)
                address = ctypes.cast(function, ctypes.c_void_p).value
                self.table[FUNCTIONS_OFFSET // 8 + i] = address

    def library(self):
        return Library(ctypes.addressof(self.table), "fake", self)

    def wrapped(self, name, rule):
        kind = structs()[f"{name}_Args"]

        def call(address):
            args = kind.from_address(address)
            self.calls.append(name)
            try:
                self.check_size(args)
                rule(args)
            except FakeError as error:
                token = ctypes.create_string_buffer(error.message.encode())
                self.errors[ctypes.addressof(token)] = error, token
                return ctypes.addressof(token)

        return call

    def check_size(self, args):
        wanted = self.sizes.get(args.c_name, 0)
        if args.struct_size < wanted:
            raise FakeError(
                "INVALID_ARGUMENT",
                f"Unexpected {args.c_name} size: expected {wanted}, got"
                f" {args.struct_size}. Check installed software versions.",
            )

    def error_message(self, args):
        error, token = self.errors[args.error]
        args.message, args.message_size = args.error, len(error.message.encode())

    def error_code(self, args):
        args.code = STATUS.index(self.errors[args.error][0].status)

    def error_destroy(self, args):
        del self.errors[args.error]
