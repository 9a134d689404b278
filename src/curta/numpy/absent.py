"""What takes the place of names of NumPy that `curta.numpy` has not."""

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
_IN_PLACE = "Arrays do not change: x = jnp.where(mask, values, x)."

_GROUPS: Mapping[str, str] = {
    "random": "Random numbers are drawn with keys: key = curta.random.key(0), then"
    " curta.random.normal(key, (3,)), with a key of its own for each draw (split).",
    "ma": "A masked array is an array and a mask: jnp.where(mask, x, fill), and"
    " `where=mask` of sum, mean, std, max and others.",
    "loadtxt genfromtxt savetxt savez_compressed fromregex memmap": _FILES,
    "ndindex ndenumerate nditer nested_iters flatiter broadcast": _INDICES,
    "errstate seterr geterr seterrcall geterrcall": _FLOATS,
    "asanyarray ascontiguousarray asfortranarray require": _ORDER,
    "asarray_chkfinite": "jnp.asarray(x); curta.debug_nans raises for values of NaN.",
    "copyto putmask": _IN_PLACE,
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
    "True_ False_": "Use True and False.",
    "byte short intc intp long longlong ubyte ushort uintc uintp ulong ulonglong"
    " half": _BITS,
    "longdouble clongdouble float128 complex256": _WIDE,
    "datetime64 timedelta64 str_ bytes_ void char strings rec recarray record"
    " is_busday busday_count busday_offset isnat": _NOT_NUMBERS,
}

REMEDIES: Mapping[str, str] = {
    name: remedy for names, remedy in _GROUPS.items() for name in names.split()
}
