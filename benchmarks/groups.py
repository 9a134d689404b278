"""The rows by group, as the table has them and its geometric means are taken."""

from benchmarks.array_cases import ARRAY_CASES
from benchmarks.cases import CASES
from benchmarks.conv_cases import CONV_CASES
from benchmarks.donated_cases import DONATED_CASES
from benchmarks.first_calls import FIRST_CALLS
from benchmarks.linalg_cases import LINALG_CASES
from benchmarks.loop_cases import LOOPS
from benchmarks.lowering import LOWERINGS
from benchmarks.processes import PROCESSES
from benchmarks.random_cases import RANDOM_CASES
from benchmarks.rnn_cases import RNN_CASES, RNN_PROCESSES
from benchmarks.short_row_cases import SHORT_ROW_CASES
from benchmarks.thread_cases import THREADS

# What is measured in one process.
GROUPS = {
    "calls, maps, reductions, products": CASES,
    "sorting, sums, indexing": ARRAY_CASES,
    "linear algebra": LINALG_CASES,
    "random numbers": RANDOM_CASES,
    "convolutions": CONV_CASES,
    "loops": LOOPS,
    "recurrent nets": RNN_CASES,
    "trees of arrays": DONATED_CASES,
    "short rows": SHORT_ROW_CASES,
    "lowering": LOWERINGS,
}

# What takes fresh processes: name, how to measure it, the ratio aimed at.
PROCESS_GROUPS = {
    "processes": (*PROCESSES, *RNN_PROCESSES),
    "first calls": FIRST_CALLS,
    "threads": THREADS,
}
