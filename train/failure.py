"""The error of a training command: one line that says what is wrong and what to do."""

from cli.errors import UserError


class TrainError(UserError):
    """Bad arguments, files or state; its message is shown without a traceback."""
