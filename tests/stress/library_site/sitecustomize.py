"""On PYTHONPATH, `import jax` is Curta in this process and those it starts."""

import curta.as_jax  # noqa: F401
