"""Units as shared libraries, played from Python without a simulator's scheduler."""
