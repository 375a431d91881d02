"""The reward of a purchase: how well the bought product meets the goal, in [0, 1].

``reward = r_type x (attributes met + options met + price kept) / (attributes + options + 1)``

The sum is one of whole numbers, divided once, so that values equal the original's to the last bit. Everything but
options and price depends on product and goal alone and is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .catalogue import Catalogue, Product
from .fuzzy import similar
from .goals import Goal
from .options import matches_fixed, matches_upstream

_SEPARATOR = "›"  # of category paths
_MATCH = 0.2  # title scores above this make the product one of the right type
_FAR = 0.1  # title scores below this make the product one of another type, whatever else matches
_EMPTY = 0.2  # title score where the goal's title has no noun

FITS_KEPT = 1 << 16
"""Pairs of product and goal kept in memory; then all are forgotten."""


class Fit(NamedTuple):
    """How a product fits a goal, whatever the options and the price.

    Attributes:
        r_type: factor for the type of product: 1, 0.5, 0.1 or 0.
        met: number of attributes that it has.
        query_match: both were collected by the same query.
        category_match: the category paths share two elements.
        title_score: share of the nouns of the goal's title that its title has.
    """

    r_type: float
    met: int
    query_match: bool
    category_match: bool
    title_score: float


class Reward(NamedTuple):
    """A reward and what it is made of.

    Attributes:
        value: the reward.
        parts: the original's figures under its names, and ``n_attr``, ``n_opt``, ``target_bought``.
    """

    value: float
    parts: Mapping[str, float]


class Judge:
    """Rewards purchases of one catalogue, and keeps what depends on product and goal alone.

    Args:
        catalogue: the products, of which the goals are some.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._fits: dict[tuple[object, ...], Fit] = {}

    def reward(
        self, product: Product, goal: Goal, price: float, chosen: Mapping[str, str], *, upstream: bool
    ) -> Reward:
        """The reward for buying a product.

        Args:
            product: what was bought.
            goal: what was asked for.
            price: drawn price of the product, in dollars.
            chosen: chosen value of each option group.
            upstream: judge options by the original's rule.
        """
        fit = self.fit(product, goal)
        if upstream:
            options = matches_upstream(goal.options, chosen)
        else:
            options = matches_fixed(goal.options, chosen, product.options)
        kept = price <= goal.price_upper
        total = len(goal.attributes) + len(goal.options) + 1
        parts = {
            "r_type": fit.r_type,
            "r_att": fit.met / len(goal.attributes),
            "w_att": len(goal.attributes) / total,
            "query_match": float(fit.query_match),
            "category_match": float(fit.category_match),
            "title_score": fit.title_score,
            "r_price": float(kept),
            "w_price": 1 / total,
            "n_attr": float(fit.met),
            "n_opt": float(options),
            "target_bought": float(product.asin == goal.asin),
        }
        if goal.options:
            parts["r_option"] = options / len(goal.options)
            parts["w_option"] = len(goal.options) / total
        return Reward((fit.met + options + kept) / total * fit.r_type, parts)

    def fit(self, product: Product, goal: Goal) -> Fit:
        """How a product fits a goal, whatever the options and the price."""
        key = (product.asin, goal.name, goal.query, goal.product_category, goal.attributes)
        found = self._fits.get(key)
        if found is None:
            if len(self._fits) >= FITS_KEPT:
                self._fits.clear()
            found = self._fits[key] = self._fit(product, goal)
        return found

    def _fit(self, product: Product, goal: Goal) -> Fit:
        query_match = product.query == goal.query
        category_match = len(_categories(product.product_category) & _categories(goal.product_category)) >= 2
        wanted = self._catalogue.nouns(goal.asin, goal.name)
        # The wanted nouns are counted with their duplicates, so that even the target can score less than 1.
        score = len(set(product.nouns) & set(wanted)) / len(wanted) if wanted else _EMPTY
        r_type = 1.0 if query_match or category_match or score > _MATCH else 0.5
        if score < _FAR:
            r_type = 0.0 if score == 0.0 else 0.1
        texts = (product.title.lower(), " ".join(product.bullets).lower(), product.description.lower())
        met = sum(
            any(similar(own, attribute) for own in product.attributes) or any(attribute in text for text in texts)
            for attribute in goal.attributes
        )
        return Fit(r_type, met, query_match, category_match, score)


def _categories(path: str) -> set[str]:
    return {part.strip() for part in path.split(_SEPARATOR)}
