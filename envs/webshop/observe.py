"""Observations: what a visitor is shown, in one of four modes."""

from __future__ import annotations

from typing import Literal

from .html import write_html
from .machine import Visit
from .nodes import write_rich, write_text

Mode = Literal["text", "text_rich", "html", "url"]
MODES: tuple[Mode, ...] = ("text", "text_rich", "html", "url")


def observe(visit: Visit, mode: Mode) -> str:
    """The page that a visitor sees.

    Args:
        visit: the visitor.
        mode: ``text``: texts joined by ``[SEP]``; ``text_rich``: a line per text, with buttons marked; ``html``: the
            page; ``url``: its address.
    """
    fixed = visit.store.fixed
    if mode == "text":
        return write_text(visit.nodes, visit.page.options if fixed else None)
    if mode == "text_rich":
        return write_rich(visit.nodes, visit.visited, visit.url, visit.page.options if fixed else None)
    return write_html(visit) if mode == "html" else visit.url
