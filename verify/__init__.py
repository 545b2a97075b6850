"""Checks of the checks: fuzzing, mutation."""
