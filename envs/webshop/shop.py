"""A shop: a catalogue with drawn prices and its goals, shared by any number of environments.

Invariant: nothing in a shop changes after it is made, except caches that no answer depends on.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
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

    def narrowed(self, keep: Callable[[int, Goal], bool], limit: int | None = None) -> Shop:
        """A shop with some of the goals, chosen as the original's ``filter_goals`` and ``limit_goals`` choose them.

        Args:
            keep: called with index and goal.
            limit: most goals; if there are more, this many distinct ones are drawn by weight, in the order of drawing.
        """
        shop = copy.copy(self)
        shop.goals = [goal for index, goal in enumerate(self.goals) if keep(index, goal)]
        shop.cumulated = cumulate([goal.weight for goal in shop.goals])
        if limit is not None and limit < len(shop.goals):
            random = Random()
            random.setstate(self.stream)
            drawn: dict[int, None] = {}
            while len(drawn) < limit:
                drawn[shop.draw_goal(random)] = None
            shop.goals = [shop.goals[index] for index in drawn]
            shop.cumulated = cumulate([goal.weight for goal in shop.goals])
            shop.stream = random.getstate()
        return shop

    def reward(self, product: Product, goal: Goal, chosen: dict[str, str], *, upstream: bool) -> Reward:
        """The reward for buying a product at its drawn price; see `Judge.reward`."""
        price = self.prices[self.catalogue.positions[product.asin]]
        return self._judge.reward(product, goal, price, chosen, upstream=upstream)

    def draw_goal(self, random: Random) -> int:
        """The index of a goal, drawn by weight as the original does (see `draw_index`)."""
        return draw_index(random, self.cumulated)
