"""All rows, and the public names that need none, with the reasons."""

from tests.functions import (
    lax_arrays,
    lax_control,
    lax_elementwise,
    lax_indexing,
    lax_linalg,
    lax_products,
    nn_rows,
    numpy_algebra,
    numpy_arrays,
    numpy_elementwise,
    numpy_reductions,
    numpy_searching,
    scipy_linalg,
    scipy_rows,
    stats_rows,
)

MODULES = [
    *(numpy_elementwise, numpy_reductions, numpy_arrays, numpy_algebra),
    *(lax_elementwise, lax_arrays, lax_indexing, lax_products, lax_control, lax_linalg),
    *(numpy_searching, nn_rows, stats_rows, scipy_rows, scipy_linalg),
]
ROWS = [row for module in MODULES for row in module.TABLE]


def _without_rows() -> dict[str, str]:
    reasons = {
        "a question about dtypes (tests/dtypes)": (
            "numpy",
            "can_cast isdtype issubdtype promote_types result_type",
        ),
        "text and files (tests/numpy)": (
            "numpy",
            "array_repr array_str get_printoptions printoptions set_printoptions load"
            " save savez",
        ),
        "refused, as in JAX": ("numpy", "fromfile fromiter"),
        "of a buffer or a string (tests/api, tests/runtime)": (
            "numpy",
            "from_dlpack frombuffer fromstring",
        ),
        "makes functions (tests/numpy)": ("numpy", "frompyfunc vectorize"),
        "gives a plan (tests/numpy)": ("numpy", "einsum_path"),
        "layouts and sizes of convolutions (tests/primitives)": (
            "lax",
            "conv_dimension_numbers conv_general_permutations conv_general_shape_tuple"
            " conv_shape_tuple conv_transpose_shape_tuple padtype_to_pads"
            " reduce_window_shape_tuple",
        ),
        "about effects, tokens, devices and types (tests/control, tests/api)": (
            "lax",
            "after_all create_token dce_sink dtype pcast stage with_sharding_constraint"
            " ragged_all_to_all",
        ),
        "for GPUs only, in JAX too": ("lax", "precv psend"),
        "bits with no reference (tests/random)": (
            "lax",
            "rng_bit_generator rng_uniform",
        ),
        "products of scaled blocks (tests/nn)": ("lax", "scaled_dot"),
        "products of scaled blocks (tests/nn) ": (
            "nn",
            "get_scaled_dot_general_config scaled_dot_general scaled_matmul",
        ),
        "keys (tests/random/test_keys.py)": (
            "random",
            "PRNGKey clone fold_in key key_data key_dtype key_impl split wrap_key_data",
        ),
    }
    return {
        f"{namespace}.{name}": reason.strip()
        for reason, (namespace, names) in reasons.items()
        for name in names.split()
    }


WITHOUT_ROWS = _without_rows()
