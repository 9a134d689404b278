"""For tests and examples: errors end with their message, and show all frames."""

import os

os.environ.setdefault("JAX_TRACEBACK_FILTERING", "off")
# Advice is for programs of users; tests/test_advice.py asks for it.
os.environ.setdefault("CURTA_ADVICE", "ignore")

# Modules that take the place of others when they are imported.
collect_ignore = ["src/curta/command_line/for_children"]
