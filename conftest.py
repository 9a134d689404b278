"""For tests and examples: errors end with their message, and show all frames."""

import os

os.environ.setdefault("JAX_TRACEBACK_FILTERING", "off")

# Modules that take the place of others when they are imported.
collect_ignore = ["src/curta/command_line/for_children"]
