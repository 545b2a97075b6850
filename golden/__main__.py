"""`python -m golden` says that it is no command; the specification imports nothing else."""

import sys

print(
    "error: golden is a package, not a command: python -m bert2rtl --help shows the commands",
    file=sys.stderr,
)
sys.exit(2)
