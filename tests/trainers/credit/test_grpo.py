from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.episode import Group
from agentgym.errors import ConfigError
from agentgym.trainers.credit import get_credit
from agentgym.trainers.credit.grpo import normalise


def by_turn(group: Group, **options: object) -> dict[int, list[float]]:
    """Position of each episode with rows -> the advantage of each turn."""
    table = get_credit("grpo", **options).advantages(group).table
    assert set(table.kind) <= {"turn"}
    return {int(i): table.advantage[table.episode == i].tolist() for i in sorted(set(table.episode))}


def test_both_baselines_of_a_mixed_group(build: Any) -> None:
    group = build.group([True, False, False, True], turns=[2, 5, 5, 3])
    for scale in (1.0, 10.0):
        episode = by_turn(group, reward_scale=scale)
        assert episode[0] == pytest.approx([0.866025] * 2, abs=5e-6)
        assert episode[1] == pytest.approx([-0.866025] * 5, abs=5e-6)
    row = by_turn(group, baseline_unit="row", reward_scale=10)
    assert row[3] == pytest.approx([1.366260] * 3, abs=1e-6)
    assert row[2] == pytest.approx([-0.683130] * 5, abs=1e-6)


@pytest.mark.parametrize(
    ("sizes", "offender", "rest"), [((4, 8), -3.175316, 0.288665), ((150, 50), -199 / 200**0.5, 1 / 200**0.5)]
)
def test_a_penalty_before_normalisation_becomes_the_whole_signal_of_a_failed_group(
    build: Any, sizes: tuple[int, int], offender: float, rest: float
) -> None:
    first = build.episode([build.turn(well_formed=False), *(build.turn() for _ in range(sizes[0] - 1))])
    group = Group(episodes=(first, build.episode(sizes[1], member=1)))
    before = by_turn(group, baseline_unit="row", penalty_timing="before")
    assert before[0][0] == pytest.approx(offender, rel=3e-4)
    assert before[0][1:] + before[1] == pytest.approx([rest] * (sum(sizes) - 1), rel=3e-4)
    for unit in ("row", "episode"):
        after = by_turn(group, baseline_unit=unit)
        assert after[0][0] == -0.1
        assert after[0][1:] + after[1] == [0.0] * (sum(sizes) - 1)


@pytest.mark.parametrize(
    ("criterion", "penalised"),
    [("format", [True, True, False]), ("admissible", [False, True, True]), ("either", [True] * 3)],
)
def test_what_is_penalised(build: Any, criterion: str, penalised: list[bool]) -> None:
    turns = [
        build.turn(well_formed=False, accepted=True),
        build.turn(well_formed=False, accepted=False),
        build.turn(accepted=False),
        build.turn(accepted=None),
    ]
    group = Group(episodes=(build.episode(turns),))
    credit = get_credit("grpo", penalty_criterion=criterion, invalid_penalty=0.25).advantages(group)
    assert credit.table.advantage.tolist() == [-0.25 * wrong for wrong in [*penalised, False]]
    assert credit.stats["group/penalised"] == sum(penalised) / 4


def test_a_group_of_equal_rewards_gets_exactly_zero_and_is_counted(build: Any) -> None:
    turn = build.turn()
    values = [0.1 + 0.2, 0.3, 0.3]
    episodes = [build.episode([turn] * 2, score=value, member=i) for i, value in enumerate(values)]
    credit = get_credit("grpo", reward="score").advantages(Group(episodes=tuple(episodes)))
    assert credit.table.advantage.tolist() == [0.0] * 6
    assert credit.stats["group/active"] == 0.0
    assert get_credit("grpo").advantages(build.group([True, False])).stats["group/active"] == 1.0


def test_lone_episodes_and_lone_rows(build: Any) -> None:
    assert by_turn(build.group([True], turns=[1]))[0] == [0.0]
    assert by_turn(build.group([True], turns=[1]), baseline_unit="row", reward_scale=10)[0] == pytest.approx(
        [10.0], rel=2e-6
    )
    assert by_turn(build.group([True], turns=[2]), baseline_unit="row")[0] == [0.0, 0.0]


@pytest.mark.parametrize("unit", ["episode", "row"])
def test_broken_episodes_count_nowhere(build: Any, unit: str) -> None:
    played = build.group([True, False, False], turns=[2, 3, 4])
    broken = build.episode([build.turn(tokens=False)], success=None, status="engine_error", member=7)
    mixed = Group(episodes=(broken, *played.episodes))
    clean = by_turn(played, baseline_unit=unit)
    assert by_turn(mixed, baseline_unit=unit) == {i + 1: values for i, values in clean.items()}
    assert get_credit("grpo").advantages(mixed).stats["group/broken"] == 0.25
    lost = get_credit("grpo", baseline_unit=unit).advantages(Group(episodes=(broken,)))
    assert len(lost.table) == 0


def test_a_step_limit_is_a_failure_not_a_breakdown(build: Any) -> None:
    late = build.episode(2, status="truncated", member=1)
    assert by_turn(Group(episodes=(build.episode(2, success=True), late)))[1] == pytest.approx(
        [-(0.5**0.5)] * 2, rel=1e-5
    )


def test_missing_outcomes_and_missing_tokens_are_named(build: Any) -> None:
    with pytest.raises(ConfigError, match="no score"):
        by_turn(build.group([True, False]), reward="score")
    with pytest.raises(ConfigError, match="no token ids"):
        by_turn(Group(episodes=(build.episode([build.turn(tokens=False)]),)))


rewards = st.lists(st.floats(-100, 100, allow_subnormal=False), min_size=2, max_size=12)


@given(values=rewards, seed=st.integers(0, 2**32))
def test_order_does_not_show_and_the_mean_is_zero(values: list[float], seed: int) -> None:
    order = np.random.Generator(np.random.Philox(seed)).permutation(len(values))
    for scale in ("std", "none"):
        result = normalise(values, scale)
        assert normalise([values[i] for i in order], scale).tolist() == result[order].tolist()
        assert abs(result.sum()) < 1e-6
        assert np.isfinite(result).all()


@given(values=rewards, factor=st.floats(0.5, 50), shift=st.floats(-10, 10))
def test_std_scale_ignores_unit_and_origin(values: list[float], factor: float, shift: float) -> None:
    if max(values) - min(values) < 0.1:
        values = [*values, max(values) + 1]
    moved = normalise([factor * value + shift for value in values], "std")
    assert moved == pytest.approx(normalise(values, "std"), abs=1e-3)
    assert normalise(values, "none") == pytest.approx(np.array(values) - np.mean(values), abs=1e-9)
