from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tiny_policy
from hypothesis import given
from hypothesis import strategies as st

from agentgym.errors import ConfigError
from agentgym.trainers.batch import episode_rows, micro_batches, pad
from agentgym.trainers.policy import Policy


@pytest.mark.parametrize("restrict", ["admissible", "none"])
def test_an_append_episode_is_one_row_of_exactly_its_ids(play_guess: Any, policy: Policy, restrict: str) -> None:
    own = tiny_policy.policy(restrict=restrict)
    for episode in play_guess.episodes(own):
        (row,) = episode_rows(episode, own.engine.choices)
        last = len(episode.turns) - 1
        assert tuple(row.ids) == (*episode.context_ids(last), *(episode.turns[last].output_ids or ()))
        outputs = [token for turn in episode.turns for token in turn.output_ids or ()]
        assert row.sampled.tolist() == outputs
        assert row.turns.tolist() == [n for n, turn in enumerate(episode.turns) for _ in turn.output_ids or ()]
        assert (row.allowed is None) == (restrict == "none")


def test_a_windowed_episode_is_one_row_a_turn(play_guess: Any) -> None:
    own = tiny_policy.policy(style="windowed", temperature=0.7)
    for episode in play_guess.episodes(own):
        rows = episode_rows(episode, own.engine.choices)
        assert len(rows) == len(episode.turns)
        for number, (row, turn) in enumerate(zip(rows, episode.turns, strict=True)):
            assert turn.prompt_ids is not None and turn.output_ids is not None
            assert tuple(row.ids) == (*turn.prompt_ids, *turn.output_ids) and set(row.turns) == {number}
            assert tuple(row.sampled) == turn.output_ids and row.temperature == 0.7
            assert row.allowed is not None and len(row.allowed) == len(turn.output_ids)
            assert all(token in open_to for token, open_to in zip(turn.output_ids, row.allowed, strict=True))


@pytest.mark.parametrize("style", ["append", "windowed"])
def test_other_prompts_change_the_context_and_not_the_outputs(play_guess: Any, style: str) -> None:
    own = tiny_policy.policy(style=style)
    (episode,) = play_guess.episodes(own, 1)
    prompts = [(9, 9, 9, *(turn.prompt_ids or ())) for turn in episode.turns]
    plain, other = episode_rows(episode, own.engine.choices), episode_rows(episode, own.engine.choices, prompts)
    for one, two in zip(plain, other, strict=True):
        assert (one.sampled == two.sampled).all() and one.allowed == two.allowed
        added = 3 * (one.turns + 1) if style == "append" else 3
        assert (two.positions == one.positions + added).all() and two.ids[0] == 9


def test_greedy_outputs_are_scored_at_temperature_one(play_guess: Any) -> None:
    own = tiny_policy.policy(temperature=0.0)
    assert episode_rows(play_guess.episodes(own, 1)[0], own.engine.choices)[0].temperature == 1.0


def test_episodes_without_tokens_or_of_another_restriction_are_refused(
    play_guess: Any, policy: Policy, build: Any
) -> None:
    with pytest.raises(ConfigError, match="holds no token ids"):
        episode_rows(build.episode(), policy.engine.choices)
    (episode,) = play_guess.episodes(policy, 1)
    turn = episode.turns[0].model_copy(update={"admissible": ("pass", "guess 77")})
    if episode.turns[0].action == "pass":
        turn = turn.model_copy(update={"admissible": ("guess 77", "guess 78")})
    strange = episode.model_copy(update={"turns": (turn, *episode.turns[1:])})
    with pytest.raises(ConfigError, match="not allowed by the recorded restriction"):
        episode_rows(strange, policy.engine.choices)


@given(st.lists(st.integers(1, 300), max_size=40), st.integers(1, 1000))
def test_micro_batches_hold_every_row_once_and_not_too_much(lengths: list[int], most: int) -> None:
    batches = list(micro_batches(lengths, most))
    assert sorted(number for batch in batches for number in batch) == list(range(len(lengths)))
    for batch in batches:
        assert batch and (len(batch) == 1 or max(lengths[number] for number in batch) * len(batch) <= most)


def test_padding_stands_on_the_right() -> None:
    assert pad([np.array([1, 2, 3]), np.array([4])]).tolist() == [[1, 2, 3], [4, 0, 0]]
    assert pad([np.array([1]), np.array([4, 5])], value=-1).tolist() == [[1, -1], [4, 5]]
