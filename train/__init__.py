"""Making checkpoints by transformers.Trainer, and the comparison with other INT8 models."""
