"""What must hold for SHARPO whatever the group: properties over random groups, then one test for each choice."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.agents.prompts import Hint, PeerContent
from agentgym.episode import Episode, Group
from agentgym.errors import ConfigError
from agentgym.trainers.credit import CreditTable, ScoreRequest, Sharpo, SharpoOptions, TeacherRule, get_credit
from agentgym.trainers.credit.peer import succeeded

PLAIN = -2.0  # what the scorer of these tests answers without a hint
balances = st.sampled_from(["mean_one", "ratio", "mass_inside", "mass_outside", "none"])


@pytest.fixture(scope="session")
def random_group(build: Any) -> Any:
    """A group drawn from a seed: outcomes, lengths, missing spans, penalties, now and then a broken one."""

    def draw(seed: int) -> Group:
        rng = np.random.Generator(np.random.Philox(seed))
        episodes: list[Episode] = []
        for member in range(int(rng.integers(2, 7))):
            turns = []
            for _ in range(int(rng.integers(1, 6))):
                length = int(rng.integers(3, 20))
                start = int(rng.integers(0, length - 1))
                span = (start, int(rng.integers(start + 1, length + 1))) if rng.random() < 0.8 else None
                turns.append(build.turn(length, span, well_formed=bool(rng.random() < 0.9)))
            broken = rng.random() < 0.1
            success = None if broken else bool(rng.random() < 0.5)
            status = "engine_error" if broken else "ok"
            episodes.append(build.episode(turns, success=success, member=member, status=status))
        return Group(episodes=tuple(episodes))

    return draw


def random_gap(seed: int) -> Any:
    def gap(episode: Episode, turn: int) -> Any:
        rng = np.random.Generator(np.random.Philox(seed + 1000 * episode.member + turn))
        return rng.normal(rng.normal(), 1.0, len(episode.turns[turn].output_ids or ()))

    return gap


def laid(table: CreditTable, group: Group) -> list[np.ndarray]:
    return [np.concatenate(turns) for turns in table.token_advantages(group)]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), balance=balances, unit=st.sampled_from(["episode", "row"]))
def test_coefficient_zero_no_peer_and_no_room_are_grpo_bit_for_bit(
    seed: int, balance: str, unit: str, random_group: Any, gap_scorer: Any
) -> None:
    group = random_group(seed)
    scorer = gap_scorer(random_gap(seed))
    grpo = laid(get_credit("grpo", baseline_unit=unit).advantages(group).table, group)
    variants: list[tuple[dict[str, object], Any]] = [({}, gap_scorer(random_gap(seed), fits=False))]
    if balance != "mass_outside":
        variants += [
            ({"lam": 0.0}, scorer),
            ({"lam": 1.0, "lam_on": "base"}, scorer),
            ({"lam": 0.5, "lam_decay_steps": 4}, scorer),
        ]
    for options, judge in variants:
        method = get_credit("sharpo", balance=balance, baseline_unit=unit, **options)
        for left, right in zip(laid(method.advantages(group, judge, step=4).table, group), grpo, strict=True):
            assert left.tobytes() == right.tobytes()
    alone = Group(episodes=tuple(e for e in group.episodes if not succeeded(e, None)) or group.episodes[:1])
    both = [get_credit(n).advantages(alone, scorer).table.advantage.tobytes() for n in ("grpo", "sharpo")]
    assert both[0] == both[1]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), balance=balances, lam=st.floats(0, 1), unit=st.sampled_from(["episode", "row"]))
def test_one_value_a_segment_that_keeps_the_sign_and_touches_nothing_else(
    seed: int, balance: str, lam: float, unit: str, random_group: Any, gap_scorer: Any
) -> None:
    group = random_group(seed)
    options: dict[str, object] = {"baseline_unit": unit, "penalty_timing": "before" if unit == "row" else "after"}
    base = get_credit("grpo", **options).advantages(group).table.token_advantages(group)
    method = get_credit("sharpo", balance=balance, lam=lam, **options)
    table = method.advantages(group, gap_scorer(random_gap(seed))).table
    for i, (episode, turns) in enumerate(zip(group.episodes, table.token_advantages(group), strict=True)):
        for k, tokens in enumerate(turns):
            assert np.array_equal(np.sign(tokens), np.sign(base[i][k]))
            start, end = episode.turns[k].action_span or (0, 0)
            assert len(set(tokens[start:end])) <= 1
            outside = np.ones(len(tokens), bool)
            outside[start:end] = False
            assert np.array_equal(tokens[outside], base[i][k][outside])


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), lam=st.floats(0, 1))
def test_the_default_conserves_each_episodes_mass_and_stays_in_bounds(
    seed: int, lam: float, random_group: Any, gap_scorer: Any
) -> None:
    group = random_group(seed)
    options: dict[str, object] = {"invalid_penalty": 0}
    credit = get_credit("sharpo", lam=lam, **options).advantages(group, gap_scorer(random_gap(seed)))
    grpo = laid(get_credit("grpo", **options).advantages(group).table, group)
    for left, right in zip(laid(credit.table, group), grpo, strict=True):
        assert left.sum() == pytest.approx(right.sum(), abs=1e-9)
        assert (np.abs(left - right) <= np.abs(right) * 0.2 * lam + 1e-12).all()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), balance=balances, tau=st.sampled_from([0.3, 1.0, "group_mean_abs", "trajectory_z"]))
def test_the_order_of_the_episodes_does_not_show(
    seed: int, balance: str, tau: object, random_group: Any, gap_scorer: Any
) -> None:
    group = random_group(seed)
    order = np.random.Generator(np.random.Philox(seed)).permutation(len(group))
    shuffled = Group(episodes=tuple(group.episodes[i] for i in order))
    for peer in ("shortest", "random"):
        method = get_credit("sharpo", balance=balance, tau=tau, peer=peer)
        first = laid(method.advantages(group, gap_scorer(random_gap(seed))).table, group)
        second = laid(method.advantages(shuffled, gap_scorer(random_gap(seed))).table, shuffled)
        for position, i in enumerate(order):
            assert first[i].tobytes() == second[position].tobytes()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_broken_episodes_and_successes_of_others_never_leak(seed: int, random_group: Any, gap_scorer: Any) -> None:
    group = random_group(seed)
    played = Group(episodes=tuple(e for e in group.episodes if e.completed) or group.episodes)
    tables = [
        get_credit("sharpo").advantages(g, gap_scorer(random_gap(seed))).table.advantage.tolist()
        for g in (group, played)
    ]
    assert tables[0] == tables[1]
    scorer = gap_scorer(random_gap(seed))
    get_credit("sharpo").advantages(group, scorer)
    assert all(request.episode.completed for request in scorer.asked)


def test_zero_gaps_one_segment_and_equal_gaps_are_grpo(build: Any, gap_scorer: Any) -> None:
    group = build.group([True, False, True])
    grpo = laid(get_credit("grpo").advantages(group).table, group)
    assert all(
        left.tobytes() == right.tobytes()
        for left, right in zip(
            laid(get_credit("sharpo").advantages(group, gap_scorer()).table, group), grpo, strict=True
        )
    )
    short = build.group([True, False, True], turns=[1, 1, 1])
    for judged, scorer in ((short, gap_scorer(lambda e, t: -2.0)), (group, gap_scorer(lambda e, t: 1.5))):
        got = laid(get_credit("sharpo").advantages(judged, scorer).table, judged)
        expected = laid(get_credit("grpo").advantages(judged).table, judged)
        for left, right in zip(got, expected, strict=True):
            assert left == pytest.approx(right, abs=1e-12)


def test_a_zero_advantage_stays_zero_and_asks_nothing(build: Any, gap_scorer: Any) -> None:
    scorer = gap_scorer(lambda e, t: 1.0 * t)
    credit = get_credit("sharpo").advantages(build.group([True, True, True]), scorer)
    assert credit.table.advantage.tolist() == [0.0] * 9
    assert scorer.asked == []
    assert credit.stats["peer/coverage"] == 0.0


def test_only_turns_with_an_advantage_share_the_balance(build: Any, gap_scorer: Any) -> None:
    turns = [build.turn(well_formed=False), build.turn(), build.turn(well_formed=False)]
    group = Group(episodes=(build.episode(turns, success=True), build.episode(success=True, member=1)))
    table = get_credit("sharpo").advantages(group, gap_scorer(lambda e, t: [0.4, 9.0, -0.4][t])).table
    got = table.advantage[table.kind == "action"]
    assert got == pytest.approx([-0.1 * (1 - 0.2 * np.tanh(0.2)), -0.1 * (1 + 0.2 * np.tanh(0.2))], abs=1e-7)


def test_what_is_asked(build: Any) -> None:
    group = build.group([True, False, True], turns=[4, 3, 2])
    shown = []

    def render(peer: Episode, *, content: PeerContent) -> tuple[str, ...]:
        shown.append((peer.member, content))
        return f"long peer {peer.member}", f"peer {peer.member}"

    options: dict[str, Any] = {"peer_content": "actions", "peer_max_tokens": 99, "peer_place": "system"}
    two, zero = (Hint((f"long peer {n}", f"peer {n}"), "system", 99) for n in (2, 0))
    asked = Sharpo(SharpoOptions(**options), render).requests(group)
    assert [(r.episode.member, r.hint) for r in asked] == [
        (0, None), (0, two), (1, None), (1, two), (2, None), (2, zero),
    ]  # fmt: skip
    assert {request.weights for request in asked} == {"policy"}
    assert shown == [(2, "actions"), (0, "actions")]
    failed = Sharpo(SharpoOptions(trajectories="failed", student="sampler", **options), render).requests(group)
    assert [(r.episode.member, r.hint) for r in failed] == [(1, two)]


def test_the_default_hint_shows_the_peers_actions(build: Any) -> None:
    plain, informed = get_credit("sharpo").requests(build.group([True, False]))
    assert plain.hint is None and informed.hint is not None
    assert "look" in informed.hint.forms[0]
    assert (informed.hint.place, informed.hint.max_tokens) == ("before_format", 1024)


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({}, None),
        ({"teacher": "reference"}, TeacherRule("reference")),
        ({"teacher": "stale", "teacher_refresh": 3}, TeacherRule("stale", refresh=3)),
        ({"teacher": "stale"}, TeacherRule("stale", refresh=10)),
        ({"teacher": "ema"}, TeacherRule("ema", rate=0.05)),
    ],
)
def test_the_weights_of_the_teacher(build: Any, options: dict[str, object], rule: TeacherRule | None) -> None:
    method = get_credit("sharpo", **options)
    assert method.teacher == rule and get_credit("grpo").teacher is None
    asked = [(r.hint is None, r.weights) for r in method.requests(build.group([True, False]))]
    assert asked == [(True, "policy"), (False, "policy" if rule is None else "teacher")]


def test_the_average_over_all_peers(build: Any, gap_scorer: Any) -> None:
    group = build.group([False, True, True, True], turns=[2, 1, 1, 1])

    class ByPeer(gap_scorer):  # type: ignore[misc]
        """What each peer makes of the first turn; the last one's hint does not fit."""

        def _answer(self, request: ScoreRequest) -> Any:
            if request.hint is None or request.episode.member:
                return super()._answer(request)
            gap = {"peer 1": 0.5, "peer 2": -0.1, "peer 3": None}[request.hint.forms[0]]
            plain = [np.full(12, PLAIN, np.float32) for _ in request.episode.turns]
            return None if gap is None else [plain[0] + np.float32(gap), plain[1]]

    def render(peer: Episode, *, content: PeerContent) -> tuple[str, ...]:
        return (f"peer {peer.member}",)

    method = Sharpo(SharpoOptions(peer="average", balance="none"), render)
    credit = method.advantages(group, ByPeer())
    base = get_credit("grpo").advantages(group).table.advantage[0]
    acted = credit.table.advantage[(credit.table.kind == "action") & (credit.table.episode == 0)]
    assert acted == pytest.approx([base * (1 - 0.2 * np.tanh(0.2 / 2)), base], abs=1e-6)
    assert credit.stats["peer/overflow"] == 0.0
    assert len(method.requests(group)) == 4 + 3 + 3 * 2


def test_a_hint_that_does_not_fit_is_counted(build: Any, gap_scorer: Any) -> None:
    group = build.group([True, False, False])
    credit = get_credit("sharpo").advantages(group, gap_scorer(lambda e, t: 1.0 * t, fits=False))
    assert credit.stats["peer/overflow"] == 2.0
    assert credit.stats["peer/coverage"] == pytest.approx(2 / 3)
    assert set(credit.table.kind) == {"turn"}


def test_the_samplers_log_probabilities_as_student(build: Any, gap_scorer: Any) -> None:
    group = build.group([True, False])
    gap = random_gap(3)
    trainer, sampler = (get_credit("sharpo", student=s) for s in ("trainer", "sampler"))
    scorer = gap_scorer(gap)
    assert sampler.advantages(group, scorer).table.advantage.tolist() == (
        trainer.advantages(group, gap_scorer(gap)).table.advantage.tolist()
    )
    assert all(request.hint is not None for request in scorer.asked)
    bare = [turn.model_copy(update={"output_logprobs": None}) for turn in group.episodes[1].turns]
    without = Group(episodes=(group.episodes[0], group.episodes[1].model_copy(update={"turns": tuple(bare)})))
    with pytest.raises(ConfigError, match="student 'trainer'"):
        sampler.advantages(without, gap_scorer(gap))


def test_segment_turn_and_apply_to_turn(build: Any, gap_scorer: Any) -> None:
    turns = [build.turn(6, (1, 3)), build.turn(10, None), build.turn(8, (2, 3))]
    group = Group(episodes=(build.episode(turns), build.episode(2, success=True, member=1)))
    scorer = gap_scorer(lambda e, t: np.where(np.arange(len(e.turns[t].output_ids)) < 2, 0.5, -0.1 * t))
    base = get_credit("grpo").advantages(group).table.advantage[0]
    common: dict[str, object] = {"balance": "none", "clip": None, "lam": 1.0}

    def got(**options: object) -> list[list[float]]:
        credit = get_credit("sharpo", **common, **options).advantages(group, scorer)
        return [sorted(set(np.round(tokens / base, 6))) for tokens in credit.table.token_advantages(group)[0]]

    def weight(gap: float) -> float:
        return round(1 + math.tanh(-gap / 2), 6)

    assert got(apply_to="turn") == [[weight(0.25)], [1.0], [weight(-0.2)]]
    assert got(segment="turn") == [[weight(1 / 6)], [weight((1.0 - 0.8) / 10)], [weight((1.0 - 1.2) / 8)]]
    assert got(min_tokens=2) == [sorted([weight(0.25), 1.0]), [1.0], [1.0]]
    spread = get_credit("sharpo", apply_to="turn").advantages(group, scorer).table
    assert np.concatenate(spread.token_advantages(group)[0]).sum() == pytest.approx(24 * base)


def test_thought_and_action_get_a_weight_each(build: Any, gap_scorer: Any) -> None:
    turns = [build.turn(8, (4, 6)), build.turn(5, None), build.turn(4, (0, 3)), build.turn(7, (2, 3))]
    group = Group(episodes=(build.episode(turns), build.episode(2, success=True, member=1)))
    scorer = gap_scorer(lambda e, t: np.where(np.arange(len(e.turns[t].output_ids)) < 4, 0.2, -0.3))
    options: dict[str, object] = {"segment": "think_action", "balance": "none"}
    credit = get_credit("sharpo", **options).advantages(group, scorer)
    base = get_credit("grpo").advantages(group).table.advantage[0]
    up, down = 1 - 0.2 * np.tanh(0.1), 1 + 0.2 * np.tanh(0.15)
    expected = [[up] * 4 + [down] * 2 + [1] * 2, [1] * 5, [up] * 3 + [1], [up] * 3 + [1] * 4]
    for tokens, factors in zip(credit.table.token_advantages(group)[0], expected, strict=True):
        assert tokens == pytest.approx(base * np.array(factors), abs=1e-6)
    assert sorted(credit.table.kind[credit.table.episode == 0]) == ["action"] * 3 + ["think"] * 2 + ["turn"] * 4
    longer = get_credit("sharpo", min_tokens=3, **options).advantages(group, scorer)
    assert longer.table.kind[-2:].tolist() == ["think", "action"]
    balanced = get_credit("sharpo", segment="think_action").advantages(group, scorer).table
    assert sum(tokens.sum() for tokens in balanced.token_advantages(group)[0]) == pytest.approx(24 * base)


def test_a_token_outlier_is_clamped(build: Any, gap_scorer: Any) -> None:
    group = build.group([False, True], turns=[2, 2])
    wild = gap_scorer(lambda e, t: np.where((np.arange(12) == 4) & (t == 0), -60.0, 0.0))
    stats = get_credit("sharpo").advantages(group, wild).stats
    assert stats["gap/failure_mean"] == pytest.approx(-5 / 12)
    assert get_credit("sharpo", token_clamp=None).advantages(group, wild).stats["gap/failure_mean"] == pytest.approx(-5)


def test_the_coefficient_falls_linearly(build: Any, gap_scorer: Any) -> None:
    group = build.group([False, True], turns=[2, 2])
    scorer = gap_scorer(lambda e, t: 2.0 * t)
    method = get_credit("sharpo", lam=0.4, lam_decay_steps=10)
    peaks = [method.advantages(group, scorer, step=step).stats["multiplier/max"] - 1 for step in (0, 5, 9)]
    assert peaks == pytest.approx([0.4 * 0.1, 0.2 * 0.1, 0.04 * 0.1])
    assert method.requests(group, step=10) == []


def test_success_by_score(build: Any) -> None:
    scores = (0.9, 0.6, 0.1)
    episodes = [build.episode(2, success=False, score=score, member=i) for i, score in enumerate(scores)]
    group = Group(episodes=tuple(episodes))
    options: dict[str, object] = {"reward": "score", "student": "sampler"}
    assert get_credit("sharpo", **options).requests(group) == []
    asked = get_credit("sharpo", success_threshold=0.5, **options).requests(group)
    assert [request.episode.member for request in asked] == [0, 1, 2]
    asked = get_credit("sharpo", success_threshold=0.7, **options).requests(group)
    assert [request.episode.member for request in asked] == [1, 2]
