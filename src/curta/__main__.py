"""`python -m curta`: the command line."""

import sys

from curta.command_line import main

if __name__ == "__main__":
    sys.exit(main())
