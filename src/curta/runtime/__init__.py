"""Arrays, devices, and the evaluation of ops and compiled functions."""
