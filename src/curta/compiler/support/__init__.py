"""Native code that programs need when they run: threads, arenas, cancellation, entries.

Modules named `*_code` write IR; the others load it, and talk to it.
"""
