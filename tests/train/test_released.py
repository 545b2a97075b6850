"""The released checkpoint's card: its command means the arguments of its table, whatever the
defaults are."""

import re
import shlex
from pathlib import Path

import pytest

from docs.figures import load
from train.command import recorded
from train.families import settle_family
from train.finetune import _parser
from train.finetuning import name_teachers
from train.recipe import settle

ROOT = Path(__file__).resolve().parents[2]
CARD = ROOT / "models" / "bert-tiny-imdb" / "README.md"
TEXTS = 18902


def of_the_card() -> str:
    text = CARD.read_text()
    command = re.search(r"\n    python -m train\.finetune (--stages 128:6.*?)\n\n", text, re.DOTALL)
    return command[1].replace("\\\n", " ")


def of_the_measurements() -> str:
    (training,) = [one for one in load() if one.name == "training"]
    command = training.all[0][training.columns.index("_command")]
    return str(command).removeprefix("python -m train.finetune ")


@pytest.mark.parametrize("command", [of_the_card, of_the_measurements])
def test_the_command_repeats_the_recorded_recipe(command):
    options = _parser().parse_args(shlex.split(command()))
    name_teachers(options)
    settle_family(options)
    settle(options, texts=TEXTS, positions=options.positions)
    card = CARD.read_text()
    meant = {name: str(value) for name, value in recorded(options).items()}
    table = re.search(
        r"\| argument \| value \|\n\| --- \| --- \|\n(.*?)\n\n", CARD.read_text(), re.S
    )
    rows = dict(re.findall(r"\| (\S+) \| (.*) \|", table[1]))
    assert len(rows) == 36
    assert {name: meant[name] for name in rows} == rows
    assert str(options.out) == "build/trained/bert-tiny-imdb"
    assert f"train {TEXTS:,}" in card
