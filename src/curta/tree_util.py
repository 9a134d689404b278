"""Trees of containers with arrays at the leaves: everything, under the long names."""

from curta.tree.flatten import (
    flatten_one_level as flatten_one_level,
)
from curta.tree.flatten import (
    flatten_one_level_with_keys as flatten_one_level_with_keys,
)
from curta.tree.keys import (
    DictKey as DictKey,
)
from curta.tree.keys import (
    FlattenedIndexKey as FlattenedIndexKey,
)
from curta.tree.keys import (
    GetAttrKey as GetAttrKey,
)
from curta.tree.keys import (
    SequenceKey as SequenceKey,
)
from curta.tree.keys import (
    keystr as keystr,
)
from curta.tree.mismatch import (
    equality_errors as equality_errors,
)
from curta.tree.mismatch import (
    equality_errors_pytreedef as equality_errors_pytreedef,
)
from curta.tree.mismatch import (
    prefix_errors as prefix_errors,
)
from curta.tree.operations import (
    all_leaves as all_leaves,
)
from curta.tree.operations import (
    broadcast_flattened_prefix as broadcast_flattened_prefix,
)
from curta.tree.operations import (
    broadcast_prefix as broadcast_prefix,
)
from curta.tree.operations import (
    tree_all as tree_all,
)
from curta.tree.operations import (
    tree_broadcast as tree_broadcast,
)
from curta.tree.operations import (
    tree_flatten as tree_flatten,
)
from curta.tree.operations import (
    tree_flatten_with_path as tree_flatten_with_path,
)
from curta.tree.operations import (
    tree_leaves as tree_leaves,
)
from curta.tree.operations import (
    tree_leaves_with_path as tree_leaves_with_path,
)
from curta.tree.operations import (
    tree_map as tree_map,
)
from curta.tree.operations import (
    tree_map_with_path as tree_map_with_path,
)
from curta.tree.operations import (
    tree_reduce as tree_reduce,
)
from curta.tree.operations import (
    tree_reduce_associative as tree_reduce_associative,
)
from curta.tree.operations import (
    tree_structure as tree_structure,
)
from curta.tree.operations import (
    tree_transpose as tree_transpose,
)
from curta.tree.operations import (
    tree_unflatten as tree_unflatten,
)
from curta.tree.operations import (
    treedef_children as treedef_children,
)
from curta.tree.operations import (
    treedef_is_leaf as treedef_is_leaf,
)
from curta.tree.operations import (
    treedef_tuple as treedef_tuple,
)
from curta.tree.partial import (
    Partial as Partial,
)
from curta.tree.registration import (
    default_registry as default_registry,
)
from curta.tree.registration import (
    is_tree_node as is_tree_node,
)
from curta.tree.registration import (
    register_dataclass as register_dataclass,
)
from curta.tree.registration import (
    register_pytree_node as register_pytree_node,
)
from curta.tree.registration import (
    register_pytree_node_class as register_pytree_node_class,
)
from curta.tree.registration import (
    register_pytree_with_keys as register_pytree_with_keys,
)
from curta.tree.registration import (
    register_pytree_with_keys_class as register_pytree_with_keys_class,
)
from curta.tree.registration import (
    register_static as register_static,
)
from curta.tree.treedef import (
    PyTreeDef as PyTreeDef,
)
