"""The error of an input that cannot be used; commands show it as one line."""


class UserError(ValueError):
    """An option, file, text, checkpoint or configuration cannot be used.

    The message names the bad value, what is allowed and what to do.
    """
