"""The work of a program, counted by hand for BERT-Tiny's shape."""

from golden.random import random_model
from rtl.compile.program import compile_model
from rtl.interface.config import Config
from sim.phases import phases, work
from tests import zoo

TINY = zoo.shape(zoo.REAL, vocabulary=9, positions=128)


def test_work_of_bert_tiny() -> None:
    """Two layers at 128 tokens are 58,720,256 MACs: 4 H^2 + 2 L H + 2 H F, times L, times 2."""
    model = random_model(TINY, 1)
    layers = 2 * 128 * (4 * 128**2 + 2 * 128 * 128 + 2 * 128 * 512)
    assert layers == 58_720_256
    head = 128 * 128 + 128 * 2
    program = compile_model(model, Config(lanes=16), whole_last_layer=True)
    assert work(program, 128) == layers + head


def test_phases_carry_what_was_seen() -> None:
    program = compile_model(random_model(TINY, 1), Config(lanes=16))
    seen = [{"number": 3, "first": 100, "last": 299, "active": 128}]
    rows = {phase.name: phase for phase in phases(program, 16, seen)}
    assert rows["layer.0.q"].cycles == 200
    assert rows["layer.0.q"].ideal == 16 * 128 * 128 / 256
    assert rows["layer.0.k"].cycles is None
    assert rows["embedding.norm"].tensors == ("embedding.norm", "embedding.x8")
    assert rows["layer.0.attend"].tensors[-1] == "layer.0.context"
