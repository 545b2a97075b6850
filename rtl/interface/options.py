"""The choices of a configuration as options of a command."""

from __future__ import annotations

import argparse
import dataclasses

from rtl.interface.config import Config


def add_config_options(parser: argparse.ArgumentParser) -> None:
    """Add one option for each field of Config."""
    group = parser.add_argument_group("configuration")
    for field in dataclasses.fields(Config):
        if field.type == "bool":
            group.add_argument(
                f"--{field.name}", action="store_true", help="activations of 16 bits, in two passes"
            )
            continue
        group.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=int,
            default=field.default,
            metavar="N",
            help="default: all" if field.default is None else f"default: {field.default}",
        )


def config_of(options: argparse.Namespace) -> Config:
    """The Config that the options of `add_config_options` name; ValueError as Config says."""
    names = [field.name for field in dataclasses.fields(Config)]
    return Config(**{name: getattr(options, name) for name in names})


def options_of(config: Config, plain: Config | None = None) -> list[str]:
    """The words of a command line of which `config_of` makes `config`.

    A choice that `plain` has too is left out; without `plain`, one that is None or False.
    """
    known = plain.as_dict() if plain else {}
    words = []
    for name, value in config.as_dict().items():
        if value is None or value is False or (plain and value == known[name]):
            continue
        words += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
    return words
