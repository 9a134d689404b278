"""Loops and branches as operations: traced once, differentiated and batched."""

from curta.lax.control_flow.associative import (
    associative_scan as associative_scan,
)
from curta.lax.control_flow.branches import (
    cond as cond,
    platform_dependent as platform_dependent,
    switch as switch,
)
from curta.lax.control_flow.loops import (
    fori_loop as fori_loop,
    while_loop as while_loop,
)
from curta.lax.control_flow.scanning import map as map, scan as scan
from curta.lax.control_flow.solves import (
    custom_linear_solve as custom_linear_solve,
    custom_root as custom_root,
)
