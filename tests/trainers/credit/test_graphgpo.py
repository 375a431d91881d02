from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.episode import Group
from agentgym.errors import ConfigError
from agentgym.trainers.credit import get_credit
from agentgym.trainers.credit.graphgpo import SUCCESS, Edge, distances

seeds = st.integers(0, 2**32)


def walks(build: Any, *paths: tuple[str, bool]) -> Group:
    """Episodes that begin in the first letter and end in the last, and whether they succeed."""
    episodes = []
    for member, (path, won) in enumerate(paths):
        turns = [
            build.turn().model_copy(update={"observation": a, "state_key": a, "next_state_key": b})
            for a, b in pairwise(path)
        ]
        episode = build.episode(turns, success=won, member=member)
        episodes.append(episode.model_copy(update={"final_observation": path[-1]}))
    return Group(episodes=tuple(episodes))


def added(group: Group, **options: Any) -> list[float]:
    shared = {key: value for key, value in options.items() if key in ("scale", "reward_scale")}
    base = get_credit("grpo", **shared).advantages(group).table.advantage
    return list(get_credit("graphgpo", **options).advantages(group).table.advantage - base)


@pytest.mark.parametrize(
    ("gamma", "scale", "expected"),
    [
        (0.1, "std", (1.154657, -0.568712, -0.585946)),
        (0.1, "none", (6.633, -3.267, -3.366)),
        (0.2, "std", (1.154035, -0.543075, -0.610960)),
    ],
)
def test_values_worked_out_by_hand(build: Any, gamma: float, scale: str, expected: Any) -> None:
    # From s, one step to success, then via places two and four steps away from it.
    group = walks(build, ("s!", True), ("sabx", True), ("scdefy", True))
    found = added(group, gamma=gamma, scale=scale, reward_scale=10)
    assert [found[0], found[1], found[4]] == pytest.approx(expected, abs=1e-5)
    assert found[2] == found[3] == found[5] == 0
    assert added(group, gamma=gamma, scale=scale, reward_scale=10, anchor="state") == found


def test_distances_along_a_chain_and_to_nowhere() -> None:
    chain = [Edge(0, 0, "a", "b"), Edge(0, 1, "b", "c"), Edge(0, 2, "c", SUCCESS), Edge(1, 0, "b", "pit")]
    assert distances(chain) == {"a": 3, "b": 2, "c": 1, SUCCESS: 0, "pit": 4}
    assert distances([*chain, Edge(1, 1, "pit", "c")])["pit"] == 2
    assert distances([Edge(0, 0, "a", "b")]) == {"a": 1, "b": 1, SUCCESS: 0}
    assert distances([]) == {SUCCESS: 0}


def test_the_score_that_counts_as_a_success(build: Any) -> None:
    def episode(member: int, score: float) -> Any:
        turns = [build.turn().model_copy(update={"observation": "s"})]
        episode = build.episode(turns, success=False, score=score, member=member)
        return episode.model_copy(update={"final_observation": str(member)})

    group = Group(episodes=(episode(0, 0.6), episode(1, 0.4)))
    assert added(group, scale="none") == [0, 0], "nobody got all of it"
    assert added(group, scale="none", success_threshold=0.5) == pytest.approx([0.495, -0.495])  # 1 and 0.1^2


def test_places_that_look_nearly_alike_are_one(build: Any) -> None:
    start, near, far = (
        "You are in the kitchen. " * 4 + "You see 1 cup.",
        "You are in the kitchen. " * 4 + "You see 2 cups.",
        "x",
    )
    ends = {start: "A dead end.", near: "A way out."}

    def episode(member: int, here: str, won: bool) -> Any:
        turns = [build.turn().model_copy(update={"observation": text}) for text in (f"{member}", here)]
        return build.episode(turns, success=won, member=member).model_copy(
            update={"final_observation": ends.get(here, far)}
        )

    group = Group(episodes=(episode(0, start, False), episode(1, near, True)))
    assert added(group) == [0, 0, 0, 0]
    assert added(group, anchor_similarity=0.95, scale="none") == pytest.approx([0, -0.4995, 0, 0.4995])  # 1 and 0.1^3
    assert added(group, anchor_similarity=1.0) == [0, 0, 0, 0]


def test_another_way_from_a_failures_place_counts(build: Any) -> None:
    # The failure went to b, from where the success got on.
    group = walks(build, ("abc", True), ("abd", False), ("aee", False))
    found = get_credit("graphgpo").advantages(group).table.advantage
    assert found[2] > found[4], "a step towards success is worth more than one that leads nowhere"


def test_the_other_form_scales_with_the_start(build: Any) -> None:
    group = walks(build, ("s!", True), ("sabx", True))
    plain = added(group, gamma=0.5, scale="none")
    gain = added(group, gamma=0.5, scale="none", value="gain")
    # s is one edge from success: gamma^(d - 1 + 1).
    assert gain == pytest.approx(plain)
    deep = walks(build, ("rs!", True), ("rsabx", True), ("rp", False))
    factor = 0.5**-1  # r is two edges from success: gamma^(d - 2 + 1)
    plain, gain = added(deep, gamma=0.5, scale="none"), added(deep, gamma=0.5, scale="none", value="gain")
    assert gain[0] == pytest.approx(factor * plain[0]) and plain[0] != 0


@settings(max_examples=50, deadline=None)
@given(seed=seeds, unit=st.sampled_from(["episode", "row"]), scale=st.sampled_from(["std", "none"]))
def test_weight_zero_places_of_their_own_and_no_success_are_grpo_bit_for_bit(
    seed: int, unit: str, scale: str, draw: Any, same_as_grpo: Any, apart: Any
) -> None:
    group = draw.group(seed)
    same_as_grpo(group, "graphgpo", step_weight=0.0, baseline_unit=unit, scale=scale)
    same_as_grpo(apart(group), "graphgpo", baseline_unit=unit, scale=scale)
    lost = Group(
        episodes=tuple(
            e.model_copy(
                update={
                    "success": None if e.success is None else False,
                    "turns": tuple(t.model_copy(update={"well_formed": True}) for t in e.turns),
                }
            )
            for e in group.episodes
        )
    )
    same_as_grpo(lost, "graphgpo", baseline_unit=unit, scale=scale)


@settings(max_examples=50, deadline=None)
@given(seed=seeds, anchor=st.sampled_from(["observation", "state"]), scale=st.sampled_from(["std", "none"]))
def test_what_is_added_sums_to_zero_over_each_place(seed: int, anchor: str, scale: str, draw: Any) -> None:
    group = draw.group(seed)
    base = get_credit("grpo", scale=scale).advantages(group).table
    table = get_credit("graphgpo", scale=scale, anchor=anchor).advantages(group).table
    sums: defaultdict[str, float] = defaultdict(float)
    for row, value in enumerate(table.advantage - base.advantage):
        sums[group.episodes[table.episode[row]].turns[table.turn[row]].observation] += value
    assert list(sums.values()) == pytest.approx([0.0] * len(sums), abs=1e-9)


def test_state_keys_are_needed_for_states_alone(build: Any) -> None:
    group = Group(episodes=(build.episode(2, success=False), build.episode(2, success=True, member=1)))
    get_credit("graphgpo").advantages(group)
    with pytest.raises(ConfigError, match="set anchor 'observation'"):
        get_credit("graphgpo", anchor="state").advantages(group)
    keyed = Group(
        episodes=tuple(
            e.model_copy(update={"turns": tuple(t.model_copy(update={"state_key": "k"}) for t in e.turns)})
            for e in group.episodes
        )
    )
    with pytest.raises(ConfigError, match="set anchor 'observation'"):
        get_credit("graphgpo", anchor="state").advantages(keyed)
