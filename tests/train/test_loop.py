"""The training loop on a model of one number: what is kept, and when it is written."""

import itertools

import pytest
import torch

import train.loop
from train.loop import Plan
from train.loop import train as run


class One(torch.nn.Module):
    """A weight that every step moves by about the learning rate."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))


def trained(tmp_path, plan, evaluate):
    model = One()

    def loss(step):
        return (model.weight - 100).square().sum(), {}

    outcome = run(
        model,
        plan,
        loss,
        lambda: evaluate(model.weight.item()),
        snapshot=tmp_path / "snapshot.safetensors",
        arguments={},
        description="training",
    )
    return model.weight.item(), outcome


@pytest.mark.parametrize(
    ("figures", "best"),
    [
        ([(70, 0.5), (80, 0.4), (75, 0.3)], 2),
        ([(80, 0.5), (80, 0.4), (80, 0.6)], 2),  # equal accuracies: the lowest loss
        ([(80, 0.5), (80, 0.5), (79, 0.1)], 1),
    ],
)
def test_the_best_evaluation_is_kept(tmp_path, figures, best):
    reached = []

    def evaluate(weight):
        accuracy, loss = figures[len(reached)]
        reached.append(weight)
        return {"accuracy": accuracy, "loss": loss}

    plan = Plan(steps=3, warmup=0, rate=0.1, evaluate_at=(1, 2, 3))
    weight, outcome = trained(tmp_path, plan, evaluate)
    assert outcome.best_step == best
    assert weight == reached[best - 1]
    assert len(set(reached)) == 3


def test_the_first_snapshot_comes_within_a_minute_and_one_every_minute(tmp_path, monkeypatch):
    clock = itertools.count(0, 2)  # the loop asks after every step and every snapshot
    monkeypatch.setattr(train.loop.time, "monotonic", lambda: next(clock))
    saved, steps = [], []

    def save(path, parts, counters, arguments):
        saved.append(counters["seconds"])
        steps.append(counters["step"])

    monkeypatch.setattr(train.loop, "save_snapshot", save)
    plan = Plan(steps=200, warmup=0, rate=0.1)
    trained(tmp_path, plan, lambda weight: {"accuracy": 0, "loss": 0})
    assert saved[0] <= 20
    assert max(b - a for a, b in itertools.pairwise(saved)) <= 70
    assert 6 <= len(saved) <= 10  # of 400 seconds
    assert steps[-1] == 200  # after the evaluation


def test_patience_counts_evaluations_without_gain(tmp_path):
    scores = iter([50, 60, 59, 60, 58, 57, 99])
    plan = Plan(steps=7, warmup=0, rate=0.1, evaluate_at=tuple(range(1, 8)), patience=3)
    _, outcome = trained(tmp_path, plan, lambda weight: {"accuracy": next(scores), "loss": 0.5})
    assert [row["accuracy"] for row in outcome.history] == [50, 60, 59, 60, 58]
    assert outcome.best_step == 2
