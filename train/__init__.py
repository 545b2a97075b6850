"""Making checkpoints: masked-language-model pre-training, fine-tuning and distillation."""
