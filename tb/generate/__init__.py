"""Self-checking SystemVerilog benches that need no Python: `python -m tb.generate`.

    files(bench_of("softmax", Config(lanes=4)))    # every file's text by its path

`units` and `machines` say what a unit is sent and what golden answers, `memories` writes it for
$readmemh, `tops` writes the bench around the unit, `folder` adds scripts and a README.
"""
