"""Programs for a computer that a board hangs on by a serial line."""
