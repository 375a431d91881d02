from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.episode import Group
from agentgym.errors import ConfigError
from agentgym.trainers.credit import get_credit

seeds = st.integers(0, 2**32)


@pytest.fixture(scope="session")
def crossing(build: Any) -> Group:
    """Three episodes that meet in one place, two and four turns before success, and in a failure."""

    def episode(member: int, length: int, success: bool) -> Any:
        names = ["crossing", *(f"{member}.{turn}" for turn in range(1, length))]
        turns = [build.turn().model_copy(update={"observation": name}) for name in names]
        return build.episode(turns, success=success, member=member)

    return Group(episodes=(episode(0, 3, True), episode(1, 5, True), episode(2, 2, False)))


@pytest.mark.parametrize(
    ("scale", "expected"),
    [("none", (3.301646, 2.421708, -5.723354)), ("std", (0.663506, 0.486672, -1.150178))],
)
def test_values_worked_out_by_hand(crossing: Group, scale: str, expected: Any) -> None:
    options = {"scale": scale, "reward_scale": 10}
    base = get_credit("grpo", **options).advantages(crossing).table.token_advantages(crossing)
    found = get_credit("gigpo", **options).advantages(crossing).table.token_advantages(crossing)
    assert [found[i][0][0] - base[i][0][0] for i in range(3)] == pytest.approx(expected, abs=1e-5)
    for i in range(3):
        assert [turn[0] for turn in found[i][1:]] == [turn[0] for turn in base[i][1:]]


def test_places_that_look_nearly_alike_are_compared(build: Any) -> None:
    episodes = [
        build.episode([build.turn().model_copy(update={"observation": "a" * 38 + tail})], success=won, member=member)
        for member, (tail, won) in enumerate([("aa", True), ("bb", False)])
    ]
    group = Group(episodes=tuple(episodes))
    plain = get_credit("grpo", scale="none").advantages(group).table.advantage
    for similarity, factor in ((None, 1), (0.96, 1), (0.95, 2)):
        found = get_credit("gigpo", scale="none", anchor_similarity=similarity).advantages(group)
        assert found.table.advantage.tolist() == (factor * plain).tolist()
        assert found.stats["anchor/repeated"] == factor - 1


@settings(max_examples=50, deadline=None)
@given(seed=seeds, unit=st.sampled_from(["episode", "row"]), scale=st.sampled_from(["std", "none"]))
def test_weight_zero_and_places_of_their_own_are_grpo_bit_for_bit(
    seed: int, unit: str, scale: str, draw: Any, same_as_grpo: Any
) -> None:
    group = draw.group(seed)
    same_as_grpo(group, "gigpo", step_weight=0.0, baseline_unit=unit, scale=scale)
    apart = Group(
        episodes=tuple(
            e.model_copy(
                update={
                    "turns": tuple(
                        t.model_copy(update={"observation": f"{e.member}.{k}"}) for k, t in enumerate(e.turns)
                    )
                }
            )
            for e in group.episodes
        )
    )
    same_as_grpo(apart, "gigpo", baseline_unit=unit, scale=scale)


@settings(max_examples=50, deadline=None)
@given(seed=seeds, anchor=st.sampled_from(["observation", "state"]), scale=st.sampled_from(["std", "none"]))
def test_what_is_added_sums_to_zero_over_each_place(seed: int, anchor: str, scale: str, draw: Any) -> None:
    group = draw.group(seed)
    base = get_credit("grpo", scale=scale).advantages(group).table
    table = get_credit("gigpo", scale=scale, anchor=anchor).advantages(group).table
    sums: defaultdict[str, float] = defaultdict(float)
    for row, added in enumerate(table.advantage - base.advantage):
        sums[group.episodes[table.episode[row]].turns[table.turn[row]].observation] += added
    assert list(sums.values()) == pytest.approx([0.0] * len(sums), abs=1e-9)


def test_the_environments_own_rewards(build: Any) -> None:
    def episode(member: int, rewards: tuple[float, ...]) -> Any:
        turns = [
            build.turn().model_copy(update={"observation": f"{member}.{k}" if k else "start", "reward": reward})
            for k, reward in enumerate(rewards)
        ]
        return build.episode(turns, member=member, total=sum(rewards))

    group = Group(episodes=(episode(0, (1.0, 2.0)), episode(1, (0.0, 4.0))))
    options = {"reward": "return", "scale": "none"}
    found = get_credit("gigpo", gamma=0.5, **options).advantages(group).table.token_advantages(group)
    # Returns 3 and 4; discounted from the start 2 and 2.
    assert [turn[0] for turn in found[0]] == [-0.5, -0.5]
    found = get_credit("gigpo", gamma=0.25, **options).advantages(group).table.token_advantages(group)
    assert [turn[0] for turn in found[0]] == [-0.25, -0.5]


def test_the_true_state_tells_apart_what_looks_the_same(build: Any) -> None:
    def group(*states: str | None) -> Group:
        outcomes = (True, False)
        return Group(
            episodes=tuple(
                build.episode([build.turn().model_copy(update={"state_key": key})], success=won, member=i)
                for i, (key, won) in enumerate(zip(states, outcomes, strict=True))
            )
        )

    plain = get_credit("grpo").advantages(group("a", "b")).table.advantage.tolist()
    assert get_credit("gigpo", anchor="state").advantages(group("a", "b")).table.advantage.tolist() == plain
    assert get_credit("gigpo").advantages(group("a", "b")).table.advantage.tolist() != plain
    assert get_credit("gigpo", anchor="state").advantages(group("a", "a")).table.advantage.tolist() != plain
    with pytest.raises(ConfigError, match="set anchor 'observation'"):
        get_credit("gigpo", anchor="state").advantages(group(None, None))
