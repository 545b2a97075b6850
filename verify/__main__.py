"""`python -m verify` says which commands there are."""

import sys

from cli.journey import no_command

sys.exit(no_command("verify"))
