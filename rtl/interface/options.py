"""The choices of a configuration as options of a command."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from typing import Any

from rtl.interface.config import Config
from rtl.interface.mechanisms import MECHANISMS

HELP = {
    "columns": "default: as many as lanes",
    "dsp_macs": "default: all",
    **{one.name: one.help for one in MECHANISMS},
}
"""Of the options; those of others say their defaults."""

LIMITS = ("tokens", "hidden", "ffn", "labels")
"""What has to be large enough for a model; without one there are defaults."""

_NAMES = tuple(field.name for field in dataclasses.fields(Config))


def add_config_options(parser: argparse.ArgumentParser, names: Sequence[str] = _NAMES) -> None:
    """Add one option for each field of Config, or for those of these names."""
    group = parser.add_argument_group("configuration")
    for field in dataclasses.fields(Config):
        if field.name not in names:
            continue
        option = f"--{field.name.replace('_', '-')}"
        if field.type == "bool":
            group.add_argument(option, action="store_true", help=HELP[field.name])
            continue
        group.add_argument(
            option,
            type=int,
            default=None if field.name in LIMITS else field.default,
            metavar="N",
            help=HELP.get(field.name) or f"default: {field.default}",
        )
    for option in ("--windows", "--rms-norm"):  # every accelerator has them
        group.add_argument(option, action="store_true", help=argparse.SUPPRESS)


def add_mechanisms(parser: argparse.ArgumentParser) -> None:
    """Add the options of `MECHANISMS` alone."""
    add_config_options(parser, [one.name for one in MECHANISMS])


def mechanisms_of(source: argparse.Namespace | Config) -> dict[str, Any]:
    """`MECHANISMS` and what the options say of them, or a Config."""
    return {one.name: getattr(source, one.name) for one in MECHANISMS}


def config_of(options: argparse.Namespace) -> Config:
    """The Config that the options of `add_config_options` name; ValueError as Config says."""
    return Config(**given(options))


def given(options: argparse.Namespace) -> dict[str, Any]:
    """The fields that the options of `add_config_options` name, but for limits that were not."""
    values = {name: getattr(options, name) for name in _NAMES}
    return {
        name: value for name, value in values.items() if name not in LIMITS or value is not None
    }


def options_of(config: Config, plain: Config | None = None) -> list[str]:
    """The words of a command line of which `config_of` makes `config`.

    A choice that `plain` has too is left out; without `plain`, one that is None, and a mechanism
    that there is not.
    """
    known = plain.as_dict() if plain else {one.name: 0 for one in MECHANISMS}
    words = []
    for name, value in config.as_dict().items():
        if value is None or value is False or (name in known and value == known[name]):
            continue
        words += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
    return words
