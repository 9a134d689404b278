"""For tests and examples: errors end with their message, and show all frames."""

import os

os.environ.setdefault("JAX_TRACEBACK_FILTERING", "off")
