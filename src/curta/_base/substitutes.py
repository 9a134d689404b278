"""What to use for names of other libraries that programs may expect here.

Modules say it in their AttributeError (`on_demand`); where an attribute of an array is
missing, or an import fails, it is a note of the error (`core/remedies.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

_FILES = (
    "NumPy reads and writes files: jnp.asarray(numpy.loadtxt(file)),"
    " numpy.savetxt(file, x)."
)
_INDICES = (
    "Loops over indices are NumPy's (numpy.ndindex(x.shape)); compiled ones are those"
    " of curta.vmap, lax.fori_loop and lax.scan."
)
_ORDER = "jnp.asarray(x): arrays have one order in memory, that of C."
_FLOATS = "numpy.errstate is not needed: nothing warns, and curta.debug_nans raises."
_NOT_NUMBERS = "Arrays hold numbers; texts, dates and records stay in arrays of NumPy."
_BITS = "Dtypes are named by their bits: int8 to int64, uint8 to uint64, float16."
_WIDE = "No dtype is wider than float64 and complex128."
_TEXT = "It is NumPy's, and takes arrays of Curta."
_MASKED = "Arrays do not change: x = jnp.where(mask, values, x)."
_SET = "Arrays do not change: x = x.at[index].set(value)."
_HOST_ARRAY = "numpy.asarray(x) is an array of NumPy, which has it."
_GRADIENTS = "Derivatives are functions: curta.grad(loss)(params)."
_DEVICES = "Use curta.device_put(x, device)."

_NAMES_OF_NUMPY: Mapping[str, str] = {
    "random": "Random numbers are drawn with keys: key = curta.random.key(0), then"
    " curta.random.normal(key, (3,)), with a key of its own for each draw (split).",
    "ma": "A masked array is an array and a mask: jnp.where(mask, x, fill), and"
    " `where=mask` of sum, mean, std, max and others.",
    "loadtxt genfromtxt savetxt savez_compressed fromregex memmap": _FILES,
    "ndindex ndenumerate nditer nested_iters flatiter broadcast": _INDICES,
    "errstate seterr geterr seterrcall geterrcall": _FLOATS,
    "asanyarray ascontiguousarray asfortranarray require": _ORDER,
    "asarray_chkfinite": "jnp.asarray(x); curta.debug_nans raises for values of NaN.",
    "copyto putmask": _MASKED,
    "matrix asmatrix bmat": "A matrix is an array of two dims; jnp.block puts them"
    " together, and @ multiplies them.",
    "lib": "Windows of an array come by indices: x[jnp.arange(n)[:, None] +"
    " jnp.arange(width)].",
    "poly1d polynomial": "Polynomials are arrays of coefficients: jnp.polyfit,"
    " jnp.polyval, jnp.roots.",
    "row_stack": "Use jnp.vstack.",
    "shares_memory may_share_memory": "Arrays do not change, so that programs cannot"
    " tell whether memory is shared.",
    "min_scalar_type common_type mintypecode": "Use jnp.promote_types or"
    " jnp.result_type.",
    "array2string format_float_positional format_float_scientific base_repr"
    " binary_repr testing": _TEXT,
    "float int complex": "Use float, int and complex of Python, or jnp.float32.",
    "True_ False_": "Use True and False.",
    "byte short intc intp long longlong ubyte ushort uintc uintp ulong ulonglong"
    " half": _BITS,
    "longdouble clongdouble float128 complex256": _WIDE,
    "datetime64 timedelta64 str_ bytes_ void char strings rec recarray record"
    " is_busday busday_count busday_offset isnat": _NOT_NUMBERS,
}

_ATTRIBUTES_OF_ARRAYS: Mapping[str, str] = {
    "fill": "Arrays do not change: x = jnp.full_like(x, value).",
    "put itemset": _SET,
    "resize": "Arrays do not change: x = jnp.resize(x, shape).",
    "partition": "Arrays do not change: x = jnp.partition(x, kth).",
    "base ctypes data flags setflags strides dump dumps getfield setfield"
    " tofile": _HOST_ARRAY,
    "numpy": "Use numpy.asarray(x).",
    "detach": "Use curta.lax.stop_gradient(x).",
    "backward requires_grad": _GRADIENTS,
    "cpu cuda to": _DEVICES,
    "dim": "Use x.ndim.",
    "permute": "Use x.transpose(axes).",
    "unsqueeze": "Use jnp.expand_dims(x, axis).",
    "float": "Use x.astype(float).",
    "long": "Use x.astype(int).",
}


def _by_name(groups: Mapping[str, str]) -> Mapping[str, str]:
    return {name: text for names, text in groups.items() for name in names.split()}


OF_MODULES: Mapping[str, Mapping[str, str]] = {
    "curta": _by_name(
        {
            "np": "import curta.numpy as jnp.",
            "optim": "Optimisers are those of Optax, after `import curta.as_jax`, or of"
            " curta.example_libraries.optimizers.",
        }
    ),
    "curta.nn": _by_name(
        {
            "Module Sequential Linear Dense Conv Conv2d Embedding Dropout LayerNorm"
            " BatchNorm": "curta.nn has functions; layers with parameters are those of"
            " Flax and Equinox, after `import curta.as_jax`.",
        }
    ),
    "curta.numpy": _by_name(_NAMES_OF_NUMPY),
    "curta.ops": _by_name(
        {"index_update": _SET, "index_add": "Use x = x.at[index].add(value)."}
    ),
}
OF_ARRAYS = _by_name(_ATTRIBUTES_OF_ARRAYS)
