"""The front door: the command `bert2rtl`.

In a wheel the project's packages lie in this folder, in its repository beside it.
"""

import os
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent


def find_modules() -> None:
    """Put the project's packages before any others of such names."""
    wheel = (_HERE / "cli").is_dir()
    sys.path.insert(0, str(_HERE if wheel else _HERE.parent))
    if wheel:  # golden's compiled code is kept beside it only in a repository
        from cli.machine import GENERATED

        os.environ.setdefault("NUMBA_CACHE_DIR", str(GENERATED / "numba"))
