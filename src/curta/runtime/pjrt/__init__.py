"""Plugins for accelerators, through the C interface PJRT, by ctypes alone."""
