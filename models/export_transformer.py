"""Export an nn.TransformerEncoder for quant.calibrate; docs/models.md says what its tensors are."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file


def export(folder, model):
    """A model with `embedding`, `encoder` and `classifier`; set the fields to what yours does."""
    layer = model.encoder.layers[0]
    (epsilon,) = {m.eps for m in model.modules() if isinstance(m, torch.nn.LayerNorm)}
    config = {
        "model_type": "bert2rtl-transformer",
        "vocab_size": model.embedding.num_embeddings,
        "hidden_size": model.embedding.embedding_dim,
        "num_hidden_layers": len(model.encoder.layers),
        "num_attention_heads": layer.self_attn.num_heads,
        "intermediate_size": layer.linear1.out_features,
        "max_position_embeddings": 512,  # the longest text in tokens, 8,192 at most
        "norm_first": layer.norm_first,
        "final_norm": model.encoder.norm is not None,  # encoder.norm
        "embedding_norm": False,  # or True: embedding_norm, on the sum with the positions
        "scale_embedding": True,  # whether embedding(ids) is multiplied by sqrt(hidden_size)
        "hidden_act": "relu",  # or gelu
        "layer_norm_eps": epsilon,
        "position_bias": "none",  # or alibi, or buckets: relative positions
        "window": None,  # or [before, after], or one for each layer: the keys that a query sees
        "rope_theta": None,  # or the base of rotary positions, or a base or None for each layer
        "gated": False,  # or True: linear2(activation(linear_gate(x)) * linear1(x))
        "rms_norm": False,  # or True: the norms are torch.nn.RMSNorm and have no bias
        "num_key_value_heads": None,  # or fewer heads of K and V than of Q
        "sinusoids": True,  # whether the paper's positions are added
        "pooling": "mean",  # of all tokens but padding; or first; none: a class for each
        "id2label": {"0": "negative", "1": "positive"},
    }
    folder = Path(folder)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    save_file(tensors, folder / "model.safetensors")
