"""Reads actions: ``search[words]`` and ``click[name]``.

Invariant: every text is read; one that is no action comes with the reason.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Verb = Literal["search", "click"]

_UPSTREAM = re.compile(r"(.+)\[(.+)\]")
_FIXED = re.compile(r"\s*(\w+)\s*\[(.*)\]\s*", re.DOTALL)


class Action(NamedTuple):
    """What an action says.

    Attributes:
        verb: what to do; None if the text is no action.
        argument: the words to search for or the name to click, lower case.
        reason: why the text is no action.
    """

    verb: Verb | None
    argument: str = ""
    reason: str = ""


def read_upstream(text: str) -> Action:
    """Reads an action by the original's rule: nothing is stripped, text after the last bracket is ignored."""
    found = _UPSTREAM.match(text)
    if found is None:
        return Action(None, reason="not of the form verb[argument]")
    verb, argument = found.groups()
    if verb == "search":
        return Action("search", argument.lower())
    if verb == "click":
        return Action("click", argument.lower())
    return Action(None, reason=f"unknown verb {verb!r}")


def read_fixed(text: str) -> Action:
    """Reads an action, forgiving white space and case; the argument may hold brackets and line breaks."""
    found = _FIXED.fullmatch(text)
    if found is None:
        return Action(None, reason="not of the form verb[argument]")
    verb, argument = found[1].lower(), " ".join(found[2].split()).lower()
    if verb not in ("search", "click"):
        return Action(None, reason=f"unknown verb {found[1]!r}; use search or click")
    if not argument:
        return Action(None, reason="the argument is empty")
    return Action("search" if verb == "search" else "click", argument)


def fold(name: str) -> str:
    """The form in which names are compared when white space and case do not matter."""
    return " ".join(name.split()).casefold()
