from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import tiny_policy
from agentgym_guess import GuessEnv, panel
from hypothesis import given
from hypothesis import strategies as st

from agentgym.agents.engines.card import PlaySettings
from agentgym.agents.engines.player import EngineAgent
from agentgym.agents.engines.transformers import TransformersEngine
from agentgym.agents.prompts import PROMPT_SETS, PromptBuilder, Step, Story, Texts
from agentgym.agents.prompts.shorten import GAP, levels, shorten
from agentgym.episode import Episode
from agentgym.errors import ConfigError
from agentgym.rollout import Job, play
from agentgym.seeding import Seed
from agentgym.trainers.init import ModelConfig

LONG = "You are in a room. " + "There is a shelf. " * 300 + "Your task is to: find x."
MANY = tuple(f"take thing {number}" for number in range(100))


def story(steps: int, level: int = 0) -> Story:
    past = tuple(Step(LONG, MANY, f"go {number}") for number in range(steps))
    return Story("find x", (*past, Step(LONG, MANY)), "", "before_format", level)


def test_history_goes_first_then_observations_then_actions() -> None:
    assert shorten(story(5), 3) == (story(5), 3)
    assert [shorten(story(5, level), 3)[1] for level in range(6)] == [3, 2, 1, 0, 0, 0]
    lengths = [max(len(step.observation) for step in shorten(story(5, level), 3)[0].steps) for level in range(12)]
    assert lengths[:4] == [len(LONG)] * 4 and lengths[4:8] == [2000, 1000, 500, 250] and lengths[8:] == [250] * 4
    shown = [shorten(story(5, level), 3)[0].steps[-1] for level in range(levels(3) + 1)]
    assert [len(step.admissible or ()) for step in shown] == [100] * 8 + [64, 32, 16, 8]
    assert all(len(step.admissible or ()) + step.hidden == 100 for step in shown)
    # A text keeps where one is and what is to be done.
    cut = shown[-1].observation
    assert cut.startswith("You are in a room.") and GAP in cut and cut.endswith("Your task is to: find x.")


@pytest.mark.parametrize("name", sorted(PROMPT_SETS))
@given(steps=st.integers(0, 4), history=st.integers(0, 4))
def test_each_level_is_no_longer_than_the_one_before(name: str, steps: int, history: int) -> None:
    texts = Texts(name, "windowed", history)
    lengths = [len(texts.message(story(steps, level))) for level in range(texts.levels + 1)]
    assert lengths == sorted(lengths, reverse=True) and lengths[-1] < lengths[0] / 2
    if name in ("plain", "react", "act", "verl_alfworld"):
        assert "and 92 more" in texts.message(story(steps, texts.levels))


def test_the_fullest_prompt_that_fits_is_taken(engine: TransformersEngine) -> None:
    builder = PromptBuilder(engine.encoder, "plain", "windowed", 2)
    lengths = [len(builder.build(replace(story(3), shortened=level))) for level in range(11)]
    for level, length in enumerate(lengths):
        ids, found = builder.fit(story(3), length)
        assert len(ids) == length and found == lengths.index(length) <= level
    assert builder.fit(story(3), None)[1] == 0
    with pytest.raises(ConfigError, match=r"shortest prompt.*longer context"):
        builder.fit(story(3), lengths[-1] - 1)
    growing = PromptBuilder(engine.encoder, "plain", "append")
    assert growing.fit(story(0), 5) == (growing.build(story(0)), 0)


def test_shortened_prompts_are_counted_and_can_be_built_again() -> None:
    class Talkative(GuessEnv):
        def _begin(self, index: int, seed: int) -> str:
            return super()._begin(index, seed) + LONG[:600]

    small = tiny_policy.engine(replace_context(480))
    agent = EngineAgent(small, PlaySettings(prompts="plain", max_tokens=8, history=3, restrict="admissible"))
    episode = asyncio.run(play(Talkative(panel("easy")), agent, Job(3, 0, Seed((0, 3)))))
    assert episode.completed, episode.error
    assert max(turn.shortened for turn in episode.turns) > 0
    read = Episode.from_json(episode.to_json())
    assert agent.builder.rebuild(read) == [turn.prompt_ids for turn in episode.turns]
    assert all(len(turn.prompt_ids or ()) <= 472 for turn in episode.turns)


def replace_context(context: int) -> ModelConfig:
    return tiny_policy.TINY.model_copy(update={"context": context})
