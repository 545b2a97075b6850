"""Export encoders of sound for quant.calibrate, and their rows; docs/models.md shows the calls."""

import json
from pathlib import Path

from cli.errors import UserError

import torch
from safetensors.torch import save_file

WHISPER = {
    "self_attn": "self_attn",
    "norm1": "self_attn_layer_norm",
    "linear1": "fc1",
    "linear2": "fc2",
    "norm2": "final_layer_norm",
}
WAV2VEC2 = {  # and HuBERT
    "self_attn": "attention",
    "norm1": "layer_norm",
    "linear1": "feed_forward.intermediate_dense",
    "linear2": "feed_forward.output_dense",
    "norm2": "final_layer_norm",
}


def export(folder, encoder, names, positions, norm_first, activation, head=None):
    """The encoder behind its front end; head: the model that has `projector` and `classifier`."""
    if head is not None and head.config.use_weighted_layer_sum:
        raise UserError("use_weighted_layer_sum: the head reads all layers, not the last one")
    tensors = {}
    for i, layer in enumerate(encoder.layers):
        theirs, ours, attention = layer.state_dict(), f"encoder.layers.{i}", names["self_attn"]
        none = torch.zeros(len(theirs[f"{attention}.out_proj.bias"]))  # Whisper's K has no bias
        for part in ("weight", "bias"):
            inputs = [theirs.get(f"{attention}.{x}_proj.{part}", none) for x in "qkv"]
            tensors[f"{ours}.self_attn.in_proj_{part}"] = torch.cat(inputs)
            tensors[f"{ours}.self_attn.out_proj.{part}"] = theirs[f"{attention}.out_proj.{part}"]
            for name in ("norm1", "linear1", "linear2", "norm2"):
                tensors[f"{ours}.{name}.{part}"] = theirs[f"{names[name]}.{part}"]
    norm = "encoder.norm" if norm_first else "embedding_norm"
    tensors |= {f"{norm}.{part}": x for part, x in encoder.layer_norm.state_dict().items()}
    if head is not None:  # the mean of a linear layer's outputs is that layer on the mean
        weight = head.classifier.weight
        tensors["classifier.weight"] = weight @ head.projector.weight
        tensors["classifier.bias"] = weight @ head.projector.bias + head.classifier.bias
    config = {
        "model_type": "bert2rtl-transformer",
        "rows": True,
        "hidden_size": encoder.layer_norm.weight.numel(),
        "num_hidden_layers": len(encoder.layers),
        "num_attention_heads": getattr(encoder.layers[0], names["self_attn"]).num_heads,
        "intermediate_size": tensors["encoder.layers.0.linear1.bias"].numel(),
        "max_position_embeddings": positions,
        "norm_first": norm_first,
        "final_norm": norm_first,
        "embedding_norm": not norm_first,
        "hidden_act": activation,
        "layer_norm_eps": encoder.layer_norm.eps,
        "pooling": "mean",
    }
    if head is not None:
        config["id2label"] = head.config.id2label
    Path(folder).mkdir(parents=True, exist_ok=True)
    (Path(folder) / "config.json").write_text(json.dumps(config))
    save_file({name: x.contiguous() for name, x in tensors.items()}, f"{folder}/model.safetensors")


def whisper_rows(encoder, features):
    """Of log-mel features [1, bins, frames], as WhisperFeatureExtractor makes them."""
    x = torch.nn.functional.gelu(encoder.conv1(features))
    x = torch.nn.functional.gelu(encoder.conv2(x)).permute(0, 2, 1)
    return (x + encoder.embed_positions.weight)[0].detach().numpy()


def wav2vec2_rows(model, sound):
    """Of samples [1, n], as Wav2Vec2FeatureExtractor makes them; model: Wav2Vec2Model in eval()."""
    x = model.feature_projection(model.feature_extractor(sound).transpose(1, 2))
    x = x[0] if isinstance(x, tuple) else x  # HuBERT gives the projection alone
    return (x + model.encoder.pos_conv_embed(x))[0].detach().numpy()
