"""A shop: a catalogue with drawn prices and its goals, shared by any number of environments.

Invariant: nothing in a shop changes after it is made, except caches that no answer depends on.
"""

from __future__ import annotations

from random import Random

from .catalogue import Catalogue, Product
from .goals import Goal, GoalKind, build_goals
from .prices import GOAL_SEED, cumulate, draw_index, draw_prices
from .reward import Judge, Reward


class Shop:
    """A catalogue, its prices and its goals.

    Args:
        catalogue: the products.
        kind: generated goals, or those by people.
        price_seed: seed of prices and price bounds.
        judge: rewards purchases; shops of one catalogue share it.

    Attributes:
        catalogue: see above.
        kind: see above.
        price_seed: see above.
        prices: drawn price of each product, in dollars.
        goals: in the original order.
        stream: state of the random stream after the shop was made; environments start from a copy of it.
    """

    def __init__(self, catalogue: Catalogue, kind: GoalKind, price_seed: int, judge: Judge) -> None:
        self.catalogue = catalogue
        self.kind: GoalKind = kind
        self.price_seed = price_seed
        self._judge = judge
        random = Random(price_seed)
        self.prices = draw_prices(random, catalogue.pricing)
        self.goals: list[Goal] = build_goals(catalogue, self.prices, kind, random)
        random.seed(GOAL_SEED)
        random.shuffle(self.goals)
        self.stream = random.getstate()
        self.cumulated = cumulate([goal.weight for goal in self.goals])

    def reward(self, product: Product, goal: Goal, chosen: dict[str, str], *, upstream: bool) -> Reward:
        """The reward for buying a product at its drawn price; see `Judge.reward`."""
        price = self.prices[self.catalogue.positions[product.asin]]
        return self._judge.reward(product, goal, price, chosen, upstream=upstream)

    def draw_goal(self, random: Random) -> int:
        """The index of a goal, drawn by weight as the original does (see `draw_index`)."""
        return draw_index(random, self.cumulated)
