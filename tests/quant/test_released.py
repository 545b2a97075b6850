"""Integers against float at the widths of released encoders, on random weights.

No package or file at hand has weights of these families. The random ones have the scales of trained
ones: inputs of every layer about 1, and a norm's weight in which one channel of a hundred is six
times as large as the others.
"""

from pathlib import Path
from typing import Any

import pytest

from quant.foreign.checkpoint import load
from quant.quantize.options import REMEDIES, Options
from tests.quant import tiny, zoo


def sizes(hidden: int, heads: int, ffn: int, **others: Any) -> dict[str, Any]:
    own = {"hidden_size": hidden, "num_attention_heads": heads, "intermediate_size": ffn}
    return own | {"max_position_embeddings": 130} | others


T5 = {"d_model": 512, "d_kv": 64, "num_layers": 2}
CLIP = {"projection_dim": 512, "max_position_embeddings": 77, "hidden_act": "quick_gelu"}
MODERN = {"num_hidden_layers": 4, "local_attention": 32}
RELEASED: dict[str, tuple[str, dict[str, Any]]] = {
    "ModernBERT-base": ("modern", sizes(768, 12, 1152, **MODERN)),
    "nomic-embed-text-v1.5": ("nomic", sizes(768, 12, 3072)),
    "gte-base-en-v1.5": ("gte", sizes(768, 12, 3072)),
    "EuroBERT-210m": ("euro", sizes(768, 12, 3072, num_key_value_heads=12)),
    "EuroBERT-210m, shared K and V": ("euro", sizes(768, 12, 3072, num_key_value_heads=4)),
    "jina-embeddings-v3": ("jina", sizes(1024, 16, 4096)),
    "esm2_t12_35M": ("esm", sizes(480, 20, 1920)),
    "clip-vit-base-patch32, texts": ("CLIP projected", sizes(512, 8, 2048, **CLIP)),
    "t5-small": ("T5", T5 | {"num_heads": 8, "d_ff": 2048}),
    "t5-v1_1-small": ("T5 1.1", T5 | {"num_heads": 6, "d_ff": 1024}),
}


def saved(folder: Path, name: str) -> None:
    """Two layers of that encoder (ModernBERT: four, of which one sees all)."""
    case, options = RELEASED[name]
    model = zoo.saved(folder, case, **options)
    torch = pytest.importorskip("torch")
    draw = torch.Generator().manual_seed(1)
    for key, array in model.named_parameters():
        if "embed" in key or "relative_attention_bias" in key:
            array.data.normal_(0, 0.5, generator=draw)
        elif array.ndim == 2:
            array.data.normal_(0, array.shape[1] ** -0.5, generator=draw)
            if key.endswith("SelfAttention.q.weight"):  # T5 does not divide its scores
                array.data *= options["d_kv"] ** -0.5
        elif key.endswith("bias"):
            array.data.normal_(0, 0.1, generator=draw)
        else:
            array.data.uniform_(0.5, 1.5, generator=draw)
            array.data[torch.randperm(len(array), generator=draw)[: len(array) // 100]] *= 6
    model.save_pretrained(folder)
    if case.startswith("CLIP"):  # the zoo's texts are shorter
        most = options["max_position_embeddings"]
        zoo.change(folder, "tokenizer_config.json", model_max_length=most)


@pytest.mark.slow
@pytest.mark.parametrize("name", RELEASED)
def test_integers_follow_float(name: str, tmp_path: Path) -> None:
    """Embeddings of texts that had no part in the calibration: remedies help, and wide operands."""
    saved(tmp_path, name)
    checkpoint = load(tmp_path)
    texts, others = (zoo.texts_of(checkpoint.spec, count, count) for count in (12, 6))
    others.sort(key=lambda one: len(one.ids))  # golden takes its time
    kept = []
    for remedies, precise in (((), False), (REMEDIES, False), (REMEDIES, True)):
        options = Options(remedies=remedies, precise=precise)
        kept.append(tiny.followed(checkpoint, texts, others, options, 1)[1])
    print(f"{name}: {', '.join(f'{one:.1f} dB' for one in kept)}")
    assert kept == sorted(kept)
    assert kept[1] > 17
    assert kept[2] > 25
