"""`python -m curta.run`: the same as `curta run`."""

import sys

from curta.command_line import main

if __name__ == "__main__":
    sys.argv.insert(1, "run")
    sys.exit(main())
