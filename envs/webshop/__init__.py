"""WebShop: an online shop in text, answering like the original without Java, spaCy or HTML parsing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentgym.env import TextEnv
from agentgym.errors import UnknownNameError
from agentgym.registry import EnvSpec, SplitInfo
from agentgym.task import Panel

from .env import WebShopEnv
from .loader import find_catalogue, searcher_of
from .prices import PRICE_SEED
from .splits import DEFAULT, load, splits

OPTIONS = (
    *("compat", "observation", "max_steps", "expert_plan", "show_attrs", "num_prev_obs", "num_prev_actions"),
    *("goals", "price_seed"),
)


class WebShopSpec(EnvSpec):
    """WebShop as the registry knows it."""

    name = "webshop"
    summary = "an online shop in text: search, compare, choose options, buy"
    default_split = DEFAULT
    site = "agentgym.envs.webshop.site:WebShopSite"

    def splits(self, data: Path | None) -> tuple[SplitInfo, ...]:
        """Splits of the generated catalogue and of the official ones."""
        return splits(data)

    def panel(self, split: str, data: Path | None) -> Panel:
        """The goals of a split as tasks."""
        return load(split, data).panel

    def make(self, split: str, data: Path | None, **options: Any) -> TextEnv:
        """An environment; see `WebShopEnv` for the options.

        Further options are ``goals`` (``synthetic`` or ``human``) and ``price_seed``, the seed of prices and bounds.
        """
        for key in options:
            if key not in OPTIONS:
                raise UnknownNameError("option of webshop", key, OPTIONS)
        goals = load(split, data, options.pop("goals", None), options.pop("price_seed", PRICE_SEED))
        return WebShopEnv(goals, **options)


SPEC = WebShopSpec()


def search(query: str, data: str | Path | None = None) -> list[tuple[str, float]]:
    """The best products of a query, best first: (id, score), at most 50.

    Args:
        query: the words to search for.
        data: folder with ``webshop/``; None for the generated catalogue.

    Raises:
        DataError: if the data is damaged.
        TooManyTermsError: for a query of more than 1,024 distinct terms.
    """
    catalogue = find_catalogue(None if data is None else Path(data))
    documents, scores = searcher_of(catalogue).search(query)
    return [(catalogue.products[number].asin, score) for number, score in zip(documents, scores, strict=True)]
