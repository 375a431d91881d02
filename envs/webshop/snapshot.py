"""A visit as JSON values and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from .machine import Step, Store, Visit
from .page import Page
from .reward import Reward

_Reward = list[Any] | None


def pack(visit: Visit, step: Step) -> list[object]:
    """A visit and its last step as JSON values."""
    page = visit.page
    return [
        [page.kind, page.keywords, page.number, page.product, page.sub, dict(page.options)],
        [page.items, page.total, page.reward],
        [visit.session, visit.keywords, visit.number, visit.product, visit.visited, visit.options],
        visit.bought,
        [step.reward, step.accepted, step.reason, step.error],
    ]


def unpack(values: Sequence[Any], store: Store, goal_index: int, random: Callable[[], Random]) -> tuple[Visit, Step]:
    """The visit and step that `pack` wrote.

    Raises:
        ValueError, TypeError, KeyError, IndexError: if the values are not what `pack` wrote.
    """
    (kind, words, number, product, sub, options), (items, total, reward), visit, bought, step = values
    if kind not in ("start", "results", "item", "sub", "done") or not -1 <= product < len(store.products):
        raise ValueError("no such page")
    page = Page(kind, tuple(words), number, product, sub, options, tuple(items), total, reward)
    session, keywords, last_number, last_product, visited, chosen = visit
    found = Visit(
        *(store, session, goal_index, random, page, tuple(keywords), last_number, last_product),
        *(tuple(visited), chosen, _reward(bought)),
    )
    return found, Step(_reward(step[0]), *step[1:])


def _reward(value: _Reward) -> Reward | None:
    return None if value is None else Reward(*value)
