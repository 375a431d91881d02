from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.trainers.credit import credit_groups, get_credit
from agentgym.trainers.credit.pooled import Pooled, count, pool, share
from agentgym.trainers.credit.reweight import Reweighted, gap_stats

columns = st.tuples(st.floats(-4, 4), st.integers(1, 40), st.floats(0.1, 2), st.floats(0.5, 1.5), st.floats(0.5, 1.5))
episodes = st.builds(
    lambda success, rows: Reweighted(success, *np.array(rows, dtype=np.float64).T),
    st.booleans(),
    st.lists(columns, min_size=1, max_size=5),
)


@given(st.lists(st.lists(episodes, max_size=3), min_size=1, max_size=4))
def test_groups_together_say_what_one_group_of_all_their_episodes_would(groups: list[list[Reweighted]]) -> None:
    together = pool([gap_stats(group) for group in groups])
    whole = gap_stats([episode for group in groups for episode in group])
    assert together == pytest.approx({key: float(value) for key, value in whole.items()}, abs=1e-9)
    assert not any(isinstance(value, Pooled) for value in together.values())


def test_sharpo_on_a_calm_group_and_a_wild_one(build: Any, gap_scorer: Any) -> None:
    calm, wild = build.group([False, True], turns=[2, 2]), build.group([False, True, True], turns=[6, 3, 3])
    gap = {2: (0.0, 0.02), 6: (-3.0, -1.0, 0.0, 0.5, 1.0, 2.0), 3: (0.0, 0.0, 0.0)}
    scorer = gap_scorer(lambda episode, turn: gap[len(episode.turns)][turn])
    credits = credit_groups(get_credit("sharpo", balance="none"), [calm, wild], scorer)
    step = pool([credit.stats for credit in credits])

    failed = np.array([*gap[2], *gap[6]])
    means = {key: np.mean([credit.stats[key] for credit in credits if key in credit.stats]) for key in step}
    for key, wanted in {
        "gap/failure_mean": failed.mean(),
        "gap/failure_sd": failed.std(),
        "gap/failure_q10": np.quantile(failed, 0.1),
        "gap/failure_q50": np.quantile(failed, 0.5),
        "gap/failure_q90": np.quantile(failed, 0.9),
        "multiplier/min": 0.96,
        "multiplier/max": 1.04,
        "peer/coverage": 14 / 16,  # the only success of the calm group has no peer
    }.items():
        assert step[key] == pytest.approx(wanted, abs=1e-5), key
        assert abs(means[key] - wanted) > 1e-3, f"{key}: the groups are too alike to tell"


def test_the_gaps_of_single_tokens_are_those_of_the_step(build: Any, gap_scorer: Any) -> None:
    groups = [build.group([False, True], turns=[1, 1]), build.group([False, True], turns=[3, 1])]
    scorer = gap_scorer(lambda episode, turn: (0.0, 1.0, 2.0)[turn] if len(episode.turns) == 3 else -3.0)
    credits = credit_groups(get_credit("rlsd"), groups, scorer)
    step, gaps = pool([credit.stats for credit in credits]), np.array([-3.0, 0.0, 1.0, 2.0])
    assert (step["gap/mean"], step["gap/sd"]) == pytest.approx((gaps.mean(), gaps.std()), abs=1e-5)
    assert step["gap/sd"] > 2 * np.mean([credit.stats["gap/sd"] for credit in credits])


def test_counts_add_up_and_hints_that_do_not_fit_are_counted_over_the_step(build: Any, gap_scorer: Any) -> None:
    groups = [build.group([False, True]), build.group([False, False, True])]
    credits = credit_groups(get_credit("sharpo"), groups, gap_scorer(lambda episode, turn: 0.0, fits=False))
    assert pool([credit.stats for credit in credits])["peer/overflow"] == 3.0


def test_shares_are_of_all_and_plain_numbers_are_averaged() -> None:
    groups: list[dict[str, float]] = [
        {"share": share(1, 2), "count": count(1), "plain": 0.25},
        {"share": share(0, 6), "count": count(3)},
    ]
    assert pool([*groups, {"plain": 0.75}]) == {"share": 0.125, "count": 4.0, "plain": 0.5}
    assert pool([{"share": share(0, 0)}]) == {"share": 0.0} and pool([]) == {}
