"""Pre-training and fine-tuning of the shipped checkpoint."""
