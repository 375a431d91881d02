"""Every kind of drift between what was played and what is trained ends the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tiny_policy

from agentgym.agents.prompts import PromptBuilder
from agentgym.episode import Episode
from agentgym.errors import DataError
from agentgym.trainers.audit import audit
from agentgym.trainers.batch import Row, episode_rows
from agentgym.trainers.policy import Policy

SETTINGS = [{"style": "append"}, {"style": "windowed", "restrict": "none"}]


def builder(policy: Policy) -> PromptBuilder:
    settings = policy.settings
    return PromptBuilder(policy.engine.encoder, settings.prompts, settings.style, settings.history)


def check(policy: Policy, episode: Episode, rows: list[Row]) -> int:
    return audit(episode, rows, builder(policy), policy.engine.pieces)


@pytest.mark.parametrize("settings", SETTINGS)
def test_honest_rows_pass_and_are_counted(play_guess: Any, settings: dict[str, Any]) -> None:
    policy = tiny_policy.policy(**settings)
    for episode in play_guess.episodes(policy, 3):
        rows = episode_rows(episode, policy.engine.choices)
        sampled = sum(len(turn.output_ids or ()) for turn in episode.turns)
        assert check(policy, episode, rows) == sampled > 0


def first_turn(**changes: Any) -> Callable[[Episode], Episode]:
    def change(episode: Episode) -> Episode:
        turn = episode.turns[0]
        values = {name: make(turn) for name, make in changes.items()}
        return episode.model_copy(update={"turns": (turn.model_copy(update=values), *episode.turns[1:])})

    return change


DRIFTS: dict[str, tuple[Callable[[Episode], Episode], str]] = {
    "a log-probability is missing": (
        first_turn(output_logprobs=lambda turn: turn.output_logprobs[1:]),
        "differ in number",
    ),
    "the text was decoded otherwise": (first_turn(output_text=lambda turn: turn.output_text + " "), "text of the ids"),
    "the prompt was cut": (first_turn(prompt_ids=lambda turn: turn.prompt_ids[1:]), "gives other ids"),
    "another observation was shown": (first_turn(observation=lambda turn: "Nothing."), "gives other ids"),
}


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("drift", DRIFTS)
def test_a_record_that_drifted_is_caught(play_guess: Any, settings: dict[str, Any], drift: str) -> None:
    policy = tiny_policy.policy(**settings)
    (episode,) = play_guess.episodes(policy, 1)
    change, says = DRIFTS[drift]
    drifted = change(episode)
    with pytest.raises(DataError, match=f"{says}"):
        check(policy, drifted, episode_rows(drifted, policy.engine.choices))


@pytest.mark.parametrize("settings", SETTINGS)
def test_rows_that_drifted_are_caught(play_guess: Any, settings: dict[str, Any]) -> None:
    policy = tiny_policy.policy(**settings)
    (episode,) = play_guess.episodes(policy, 1)

    def rows() -> list[Row]:
        return episode_rows(episode, policy.engine.choices)

    other = rows()
    other[-1].ids[other[-1].positions[-1]] += 1
    shifted = rows()
    shifted[-1] = Row(shifted[-1].ids, shifted[-1].positions - 1, shifted[-1].turns, None, 1.0)
    short = rows()
    short[-1] = Row(short[-1].ids, short[-1].positions[:-1], short[-1].turns[:-1], None, 1.0)
    for bad in (other, shifted, short, [*rows(), rows()[0]], []):
        with pytest.raises(DataError, match=r"member 0, turn \d+: the trained ids are not the sampled ids"):
            check(policy, episode, bad)


def test_the_style_is_part_of_the_record(play_guess: Any) -> None:
    policy = tiny_policy.policy(style="append")
    episode = next(episode for episode in play_guess.episodes(policy, 4) if len(episode.turns) > 1)
    other = tiny_policy.policy(style="windowed")
    with pytest.raises(DataError, match="turn 1: rendering the prompt again"):
        audit(episode, episode_rows(episode, policy.engine.choices), builder(other), policy.engine.pieces)


def test_another_vocabulary_is_caught(play_guess: Any, policy: Policy) -> None:
    (episode,) = play_guess.episodes(policy, 1)
    pieces = [bytes(reversed(piece)) for piece in policy.engine.pieces]
    with pytest.raises(DataError, match="text of the ids"):
        audit(episode, episode_rows(episode, policy.engine.choices), builder(policy), pieces)
