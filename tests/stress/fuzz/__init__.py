"""Random programs, compiled and compared with what the `eval` rules give."""
