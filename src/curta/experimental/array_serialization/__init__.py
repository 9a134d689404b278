"""Arrays written to files with TensorStore, and read again.

It needs the package `tensorstore`, which checkpoint libraries install.
"""
