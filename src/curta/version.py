"""The version of Curta, which is also part of the keys of the kernel cache.

`__version_info__` is another thing: the version of JAX whose interface this is, since
programs compare it with JAX's versions before they use what is newer or older.
"""

from typing import Any

__version__ = "0.1.0"
__version_info__: Any = (0, 10, 2)
