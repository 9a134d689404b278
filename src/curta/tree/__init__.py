"""Trees of containers with arrays at the leaves, under their short names."""

from curta.tree.operations import (
    static as static,
)
from curta.tree.operations import (
    tree_all as all,
)
from curta.tree.operations import (
    tree_broadcast as broadcast,
)
from curta.tree.operations import (
    tree_flatten as flatten,
)
from curta.tree.operations import (
    tree_flatten_with_path as flatten_with_path,
)
from curta.tree.operations import (
    tree_leaves as leaves,
)
from curta.tree.operations import (
    tree_leaves_with_path as leaves_with_path,
)
from curta.tree.operations import (
    tree_map as map,
)
from curta.tree.operations import (
    tree_map_with_path as map_with_path,
)
from curta.tree.operations import (
    tree_reduce as reduce,
)
from curta.tree.operations import (
    tree_reduce_associative as reduce_associative,
)
from curta.tree.operations import (
    tree_structure as structure,
)
from curta.tree.operations import (
    tree_transpose as transpose,
)
from curta.tree.operations import (
    tree_unflatten as unflatten,
)
