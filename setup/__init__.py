"""The first step of every `make` target: Debian packages, virtual environment, Verilator.

Standard library only, since it runs before anything is installed. Run it as
`python3 -m setup PROFILE` from the root of the repository.
"""

import sys

if sys.version_info < (3, 11):
    sys.exit(
        f"set-up: Python {sys.version.split()[0]} ({sys.executable}) is too old: 3.11 or newer is "
        "needed. Name another one with `make PYTHON=/path/to/python3.11 ...`."
    )
