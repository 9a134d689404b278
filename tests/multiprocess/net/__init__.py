"""The net: programs on real processes, compared with their results on one host.

python -m tests.multiprocess.net --ranks 2 3 4 --engines mpi tcp simulated
"""
