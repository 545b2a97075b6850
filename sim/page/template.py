"""Pages of one file that needs nothing else, from templates that escape all that they show."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from cli.options import version

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from quant.page.style import STYLE


def render(template: Path, *, style: str = "", **shown: Any) -> str:
    """The page of a template, which knows besides `shown`: `version`, `made` (when), and `style`.

    style
        Rules of its own behind those that all pages have.
    """
    environment = Environment(
        loader=FileSystemLoader(template.parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = lambda value: f"{value:,}"
    page: str = environment.get_template(template.name).render(
        style=Markup(STYLE + style),
        version=version(),
        made=time.strftime("%Y-%m-%d %H:%M"),
        **shown,
    )
    # Half a character of a text that was not UTF-8 cannot be written.
    return page.encode(errors="replace").decode()
