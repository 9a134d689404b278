"""The version of jaxlib whose interface this is: `curta.lib.__version__`.

It follows the setting `jax_api_version`, as `curta.__version_info__` does.

>>> import curta
>>> curta.lib.__version__
'0.12.0.1'
"""

from typing import Any as _Any

from curta._settings.api_version import release as _release

__version__: str  # made by __getattr__


def __getattr__(name: str) -> _Any:
    if name == "__version__":
        return _release()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
