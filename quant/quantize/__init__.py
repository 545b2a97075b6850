"""From a checkpoint and its texts to integers: observers, remedies, rounding."""
