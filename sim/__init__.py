"""Simulators, runs and reports: the top of the import order."""
