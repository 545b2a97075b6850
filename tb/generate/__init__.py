"""Self-checking SystemVerilog benches that need no Python: `python -m tb.generate`.

`machines` says what an accelerator is sent and what golden answers, `memories` writes it for
$readmemh, `tops` writes the bench around the unit, `folder` adds scripts and a README.
"""
