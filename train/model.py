"""Running a classifier on a batch, whatever its class."""

import torch
from transformers import PreTrainedModel

from train.batches import Batch
from train.checkpoint import Classifier


def logits_of(model: Classifier, batch: Batch, device: str) -> torch.Tensor:
    """Logits [batch, labels] of a padded batch."""
    ids = torch.from_numpy(batch.ids).to(device)
    mask = torch.from_numpy(batch.mask).to(device)
    if isinstance(model, PreTrainedModel):
        logits: torch.Tensor = model(input_ids=ids, attention_mask=mask).logits
        return logits
    return model(ids, mask)
