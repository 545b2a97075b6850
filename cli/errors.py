"""The errors that a command shows as one line; any other exception is a traceback."""

from golden.errors import UserError as UserError


class Different(Exception):
    """Two computations of the same differ; the message names the first difference."""


class ToolError(Exception):
    """A tool is missing or failed; the message says which and what to do."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C with something to say: what was kept, and how to go on."""
