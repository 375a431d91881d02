from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
import tiny_policy

from agentgym.agents.prompts import Hint, HintPlace, render_peer
from agentgym.episode import Episode, Group
from agentgym.errors import ConfigError
from agentgym.trainers.batch import episode_rows
from agentgym.trainers.credit import ScoreRequest, get_credit
from agentgym.trainers.init import ModelConfig
from agentgym.trainers.policy import Policy
from agentgym.trainers.scorer import PolicyScorer

STYLES = ["append", "windowed"]


def setting(play_guess: Any, style: str, **settings: Any) -> tuple[Policy, list[Episode], PolicyScorer]:
    policy = tiny_policy.policy(style=style, **settings)
    return policy, play_guess.episodes(policy, 4), PolicyScorer(policy, 400)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("place", get_args(HintPlace))
def test_an_empty_hint_opens_no_gap(play_guess: Any, style: str, place: HintPlace) -> None:
    _, episodes, scorer = setting(play_guess, style)
    plain = scorer.score([ScoreRequest(episode) for episode in episodes])
    empty = scorer.score([ScoreRequest(episode, Hint(("",), place)) for episode in episodes])
    for episode, one, other in zip(episodes, plain, empty, strict=True):
        assert one is not None and other is not None and len(one) == len(episode.turns)
        for turn, a, b in zip(episode.turns, one, other, strict=True):
            assert a.shape == (len(turn.output_ids or ()),) and a.dtype == np.float32
            assert np.abs(a - b).max() < 1e-3 and a == pytest.approx(np.array(turn.output_logprobs), abs=1e-4)


@pytest.mark.parametrize("style", STYLES)
def test_a_hint_changes_prompts_only(play_guess: Any, style: str) -> None:
    policy, episodes, scorer = setting(play_guess, style)
    forms = render_peer(episodes[1])
    hint = Hint(forms)
    for episode in episodes:
        plain, informed = scorer.rows(ScoreRequest(episode)), scorer.rows(ScoreRequest(episode, hint))
        assert plain is not None and informed is not None and len(plain) == len(informed)
        for one, other in zip(plain, informed, strict=True):
            assert (one.sampled == other.sampled).all() and one.allowed == other.allowed
            assert len(other.ids) > len(one.ids)
            assert forms[0] in policy.engine.tokenizer.decode(other.ids)
        assert all(
            (one.ids == other.ids).all()
            for one, other in zip(plain, episode_rows(episode, policy.engine.choices), strict=True)
        )
    plain_scores, informed_scores = scorer.score([ScoreRequest(episodes[0]), ScoreRequest(episodes[0], hint)])
    assert plain_scores is not None and informed_scores is not None
    gaps = np.concatenate(informed_scores) - np.concatenate(plain_scores)
    assert np.abs(gaps).max() > 1e-3


def test_what_does_not_fit_is_none_and_counted(play_guess: Any) -> None:
    size = ModelConfig(**{**tiny_policy.TINY.model_dump(), "context": 400})
    policy = tiny_policy.policy(size)
    episodes = play_guess.episodes(policy, 2)
    scorer = PolicyScorer(policy, 400)
    answers = scorer.score(
        [
            ScoreRequest(episodes[0]),
            ScoreRequest(episodes[0], Hint(("long " * 500, "long " * 400))),
            ScoreRequest(episodes[1]),
        ]
    )
    assert [answer is None for answer in answers] == [False, True, False] and scorer.overflows == 1
    assert (scorer.hints, scorer.shortened) == (1, 0)
    assert scorer.tokens == sum(len(row.ids) for e in episodes for row in scorer.rows(ScoreRequest(e)) or ())
    alone = scorer.score([ScoreRequest(episodes[1])])[0]
    last = answers[2]
    assert alone is not None and last is not None
    assert np.concatenate(alone) == pytest.approx(np.concatenate(last), abs=1e-5)


@pytest.mark.parametrize("style", STYLES)
def test_a_hint_is_shortened_until_it_fits(play_guess: Any, style: str) -> None:
    policy, episodes, scorer = setting(play_guess, style)
    longest = max(len(row.ids) for row in scorer.rows(ScoreRequest(episodes[0])) or ())
    forms = tuple("guess 1\n" * times for times in (2000, 1500, 20, 2, 1))
    counts = [len(policy.engine.encoder.encode(form)) for form in forms]
    room = policy.engine.context_length
    assert counts[1] > room > counts[2] + longest + 10
    for hint, kept in (
        (Hint(forms), forms[2]),
        (Hint(forms, max_tokens=counts[3]), forms[3]),
        (Hint(forms[2:]), forms[2]),
    ):
        one, other = scorer.rows(ScoreRequest(episodes[0], hint)), scorer.rows(ScoreRequest(episodes[0], Hint((kept,))))
        assert one is not None and other is not None and all(len(row.ids) <= room for row in one)
        assert [row.ids.tolist() for row in one] == [row.ids.tolist() for row in other]
    assert scorer.rows(ScoreRequest(episodes[0], Hint(forms, max_tokens=counts[4] - 1))) is None
    assert scorer.rows(ScoreRequest(episodes[0], Hint(()))) is None
    hints = [None, Hint(forms), Hint(forms[2:]), Hint(forms[:2]), Hint(forms, max_tokens=counts[4])]
    answers = scorer.score([ScoreRequest(episodes[0], hint) for hint in hints])
    assert [answer is None for answer in answers] == [False, False, False, True, False]
    assert (scorer.hints, scorer.shortened, scorer.overflows) == (4, 2, 1)


def test_requests_name_whose_weights_answer(play_guess: Any) -> None:
    policy, episodes, alone = setting(play_guess, "append")
    other = tiny_policy.policy(sharpness=6.0).model
    hint = Hint(("guess 3",))
    plain = [ScoreRequest(episode, hint) for episode in episodes[:2]]
    both = [request for mine in plain for request in (mine, replace(mine, weights="teacher"))]
    found = PolicyScorer(policy, 400, other).score(both)
    for answers, expected in ((found[0::2], alone.score(plain)), (found[1::2], alone.score(plain, other))):
        for one, two in zip(answers, expected, strict=True):
            assert one is not None and two is not None
            assert np.concatenate(one) == pytest.approx(np.concatenate(two), abs=1e-5)
    with pytest.raises(ConfigError, match="give the scorer a teacher"):
        alone.score(both)


def test_other_weights_can_be_asked(play_guess: Any) -> None:
    policy, episodes, scorer = setting(play_guess, "append")
    own, same, other = (
        scorer.score([ScoreRequest(episodes[0])], model)[0]
        for model in (None, policy.frozen_copy(), tiny_policy.policy(sharpness=6.0).model)
    )
    assert own is not None and same is not None and other is not None
    assert np.concatenate(own) == pytest.approx(np.concatenate(same), abs=1e-6)
    assert np.concatenate(own) != pytest.approx(np.concatenate(other), abs=1e-2)


@pytest.mark.parametrize("style", STYLES)
def test_sharpo_on_real_scores(play_guess: Any, style: str) -> None:
    """The teacher's empty rendering leaves GRPO to rounding, a real one moves credit within an episode."""
    _, episodes, scorer = setting(play_guess, style)
    outcomes = [True, False, True, False]
    group = Group(
        episodes=tuple(
            episode.model_copy(update={"success": won, "score": float(won)})
            for episode, won in zip(episodes, outcomes, strict=True)
        )
    )
    base = get_credit("grpo").advantages(group).table.token_advantages(group)
    sharpo = get_credit("sharpo", lam=1.0, clip=0.2)
    moved = sharpo.advantages(group, scorer).table.token_advantages(group)
    sharpo.render = lambda peer, *, content: ("",)  # type: ignore[attr-defined]
    still = sharpo.advantages(group, scorer).table.token_advantages(group)
    changes = []
    for one, two, three, episode in zip(base, moved, still, group.episodes, strict=True):
        for turn, (a, b, c) in enumerate(zip(one, two, three, strict=True)):
            assert c == pytest.approx(a, abs=1e-3) and (np.sign(a) == np.sign(b)).all()
            start, end = episode.turns[turn].action_span or (0, 0)
            assert (np.delete(a, np.s_[start:end]) == np.delete(b, np.s_[start:end])).all()
            changes.append(np.abs(a - b).max())
        # Credit is moved, neither made nor lost.
        assert sum(part.sum() for part in two) == pytest.approx(sum(part.sum() for part in one), abs=1e-6)
    assert max(changes) > 1e-3
