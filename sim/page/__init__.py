"""One HTML page of a run: what every unit did in each cycle, and how far values are from float."""
