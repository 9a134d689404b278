"""The rules that programs give to primitives of their own."""

from curta.interpreters import ad as ad, batching as batching
