"""The training loop: AdamW, warm-up and linear decay, gradient clipping, averaging, evaluation.

A run is a function of its arguments: every step seeds the random numbers of dropout with
(seed, step), batches come from (seed, epoch), and all other state is in the snapshot. So a run that
was killed, or interrupted with Ctrl-C, and is started again ends with the same bytes.
"""

import math
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from cli.errors import Interrupted
from cli.progress import stage

import torch
from tqdm import tqdm

from train.failure import TrainError
from train.snapshot import Tensors, load_snapshot, save_snapshot

_FIRST_SNAPSHOT_SECONDS = 10.0
_SNAPSHOT_SECONDS = 60.0
_LINE_SECONDS = 30.0
_STEP_SEEDS = 1 << 32


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a run is optimised.

    Attributes:
        steps: optimiser steps in all.
        warmup: steps over which the learning rate rises from 0 to ``rate``; then it falls linearly
            to 0 at ``steps``.
        rate: peak learning rate.
        decay: decoupled weight decay of matrices and embeddings (vectors have none).
        clip: largest 2-norm of the gradient of all parameters together.
        average: decay per step of the exponential moving average of the weights, 0 for none. Where
            there is one, it is what is evaluated and returned.
        evaluate_at: steps after which the model is evaluated, in rising order, the last included.
        patience: evaluations without a better score after which the run stops; 0 for never.
        stop_after: steps after which the run ends, though the learning rate is planned for
            ``steps``; 0 for all.
        seed: of everything random.
        device: a torch device.
        bfloat16: compute the forward pass in bfloat16 (the weights stay float32).
    """

    steps: int
    warmup: int
    rate: float
    decay: float = 0.01
    clip: float = 1.0
    average: float = 0.0
    evaluate_at: tuple[int, ...] = ()
    patience: int = 0
    stop_after: int = 0
    seed: int = 0
    device: str = "cpu"
    bfloat16: bool = False


@dataclass
class Outcome:
    """The end of a run: the history of its evaluations and the step whose weights were kept."""

    history: list[dict[str, Any]] = field(default_factory=list)
    best_step: int = 0
    seconds: float = 0.0


def learning_rate(plan: Plan, step: int) -> float:
    """The rate of step 0, 1, ...: linear warm-up, then linear decay to 0."""
    if step < plan.warmup:
        return plan.rate * (step + 1) / plan.warmup
    return plan.rate * (plan.steps - step) / max(1, plan.steps - plan.warmup)


def train(
    model: torch.nn.Module,
    plan: Plan,
    loss_of_step: Callable[[int], tuple[torch.Tensor, dict[str, float]]],
    evaluate: Callable[[], dict[str, float]],
    *,
    snapshot: Path,
    arguments: Mapping[str, Any],
    description: str,
) -> Outcome:
    """Train ``model`` in place; it ends with the (averaged) weights of the best evaluation.

    Parameters:
        loss_of_step: step -> (loss, figures to log, averaged between evaluations).
        evaluate: figures of the model as it stands; called with the averaged weights in place. The
            best has the highest "accuracy" and, of equal ones, the lowest "loss".
        snapshot: file of the state; a run continues from it when it is there.
        arguments: what the run depends on, all JSON; a snapshot with others is refused.

    Raises Interrupted after Ctrl-C or SIGTERM, with the snapshot written; TrainError when the loss
    is not finite or the snapshot does not fit.
    """
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    optimizer = _optimizer(named, plan)
    state = _State(named, optimizer, averaged=plan.average > 0)
    if snapshot.exists():
        state.restore(*load_snapshot(snapshot, arguments))
        stage(f"{description}: resumed at step {state.step} of {plan.steps}")

    def save() -> None:
        save_snapshot(snapshot, state.parts(), state.counters(), arguments)

    started = time.monotonic()
    written = started + _FIRST_SNAPSHOT_SECONDS - _SNAPSHOT_SECONDS
    said = -math.inf
    done = state.seconds
    end = min(plan.steps, plan.stop_after or plan.steps)
    stops = set(plan.evaluate_at) | {end}
    with (
        _Interruption() as interruption,
        tqdm(total=plan.steps, initial=state.step, desc=description, disable=None) as bar,
    ):
        while state.step < end and not state.stopped:
            figures = _step(model, named, optimizer, plan, state.step, loss_of_step)
            state.step += 1
            state.log(figures)
            if state.average is not None:
                _update_average(state.average, named, plan.average, state.step)
            bar.update()
            evaluated = state.step in stops
            if evaluated:
                state.evaluate(model, evaluate, plan.patience)
                bar.set_postfix({k: f"{v:.4g}" for k, v in state.history[-1].items()})
            now = time.monotonic()
            state.seconds = done + now - started
            if bar.disable and (evaluated or now - said > _LINE_SECONDS):
                shown = state.history[-1] if evaluated else figures
                stage(
                    f"{description}: step {state.step} of {plan.steps}, "
                    + ", ".join(f"{k} {v:.4g}" for k, v in shown.items() if k != "step")
                    + f", {state.seconds:.0f} s"
                )
                said = now
            if interruption.wanted:
                save()
                raise Interrupted(
                    f"interrupted after step {state.step} of {plan.steps}: "
                    "the same command goes on from there"
                )
            if evaluated or now - written > _SNAPSHOT_SECONDS:
                save()
                written = time.monotonic()
    with torch.no_grad():
        for name, parameter in named.items():
            parameter.copy_(state.best[name])
    return Outcome(state.history, state.best_step, state.seconds)


def _optimizer(named: Mapping[str, torch.nn.Parameter], plan: Plan) -> torch.optim.AdamW:
    groups = [
        {"params": [p for p in named.values() if p.ndim >= 2], "weight_decay": plan.decay},
        {"params": [p for p in named.values() if p.ndim < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    return torch.optim.AdamW(groups, lr=plan.rate, betas=(0.9, 0.98), eps=1e-6, fused=True)


def _step(
    model: torch.nn.Module,
    named: Mapping[str, torch.nn.Parameter],
    optimizer: torch.optim.AdamW,
    plan: Plan,
    step: int,
    loss_of_step: Callable[[int], tuple[torch.Tensor, dict[str, float]]],
) -> dict[str, float]:
    model.train()
    torch.manual_seed(plan.seed * _STEP_SEEDS + step)
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(plan, step)
    device = torch.device(plan.device).type
    with torch.autocast(device, dtype=torch.bfloat16, enabled=plan.bfloat16):
        loss, figures = loss_of_step(step)
    value = loss.item()
    if not math.isfinite(value):
        raise TrainError(
            f"the loss is {value} at step {step}: try a smaller --learning-rate or more --warmup"
        )
    loss.backward()
    torch.nn.utils.clip_grad_norm_(list(named.values()), plan.clip)
    optimizer.step()
    optimizer.zero_grad()
    return {"loss": value, **figures}


@torch.no_grad()
def _update_average(
    average: Tensors, named: Mapping[str, torch.nn.Parameter], decay: float, step: int
) -> None:
    """Exponential moving average whose first steps count as a plain mean."""
    weight = max(1 - decay, 1 / (step + 1))
    torch._foreach_lerp_(list(average.values()), [named[name] for name in average], weight)


class _State:
    """All that changes during a run."""

    def __init__(
        self,
        named: dict[str, torch.nn.Parameter],
        optimizer: torch.optim.AdamW,
        *,
        averaged: bool,
    ) -> None:
        self.named = named
        self.optimizer = optimizer
        self.average = _copies(named) if averaged else None
        self.best = _copies(named)
        self.best_step = 0
        self.best_score = (-math.inf, -math.inf)  # accuracy, -loss
        self.worse = 0
        self.step = 0
        self.seconds = 0.0
        self.stopped = False
        self.history: list[dict[str, Any]] = []
        self.sums: dict[str, float] = {}
        self.count = 0

    def log(self, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        self.count += 1

    def evaluate(
        self,
        model: torch.nn.Module,
        evaluate: Callable[[], dict[str, float]],
        patience: int,
    ) -> None:
        kept = _copies(self.named)
        if self.average is not None:
            _assign(self.named, self.average)
        model.eval()
        with torch.no_grad():
            measured = evaluate()
        means = {f"train_{name}": total / self.count for name, total in self.sums.items()}
        self.history.append({"step": self.step, **means, **measured})
        self.sums, self.count = {}, 0
        score = (measured["accuracy"], -measured["loss"])
        if score > self.best_score:
            self.best_score, self.best_step, self.worse = score, self.step, 0
            self.best = _copies(self.named)
        else:
            self.worse += 1
            self.stopped = 0 < patience <= self.worse
        _assign(self.named, kept)

    def parts(self) -> dict[str, Tensors]:
        moments: Tensors = {}
        for name, parameter in self.named.items():
            for key, value in self.optimizer.state.get(parameter, {}).items():
                moments[f"{name}/{key}"] = value
        parts: dict[str, Tensors] = {"model": dict(self.named), "optimizer": moments}
        parts["best"] = self.best
        if self.average is not None:
            parts["average"] = self.average
        return parts

    def counters(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "seconds": self.seconds,
            "stopped": self.stopped,
            "best_step": self.best_step,
            "best_score": self.best_score if self.history else None,
            "worse": self.worse,
            "history": self.history,
            "sums": self.sums,
            "count": self.count,
        }

    def restore(self, parts: dict[str, Tensors], counters: dict[str, Any]) -> None:
        _assign(self.named, parts["model"])
        _assign(self.best, parts["best"])
        if self.average is not None:
            _assign(self.average, parts["average"])
        for name, parameter in self.named.items():
            moments: Tensors = {}
            for key in ("step", "exp_avg", "exp_avg_sq"):
                moments[key] = parts["optimizer"][f"{name}/{key}"].to(parameter.device)
            self.optimizer.state[parameter] = moments
        counters["best_score"] = tuple(counters["best_score"] or (-math.inf, -math.inf))
        for name, value in counters.items():
            setattr(self, name, value)


def _copies(named: Mapping[str, torch.Tensor]) -> Tensors:
    return {name: tensor.detach().clone() for name, tensor in named.items()}


@torch.no_grad()
def _assign(target: Mapping[str, torch.Tensor], source: Mapping[str, torch.Tensor]) -> None:
    for name, tensor in target.items():
        tensor.copy_(source[name])


class _Interruption:
    """Turns the first Ctrl-C or SIGTERM into a wish that the loop grants between two steps."""

    def __init__(self) -> None:
        self.wanted = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "_Interruption":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = True
