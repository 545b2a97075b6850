"""`python -m train` says which commands there are."""

import sys

from cli.journey import no_command

sys.exit(no_command("train"))
