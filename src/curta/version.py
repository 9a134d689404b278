"""The version of Curta, which is also part of the keys of the kernel cache."""

__version__ = "0.1.0"
