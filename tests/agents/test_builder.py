from __future__ import annotations

import asyncio
from typing import Any, get_args

import pytest
from agentgym_guess import GuessEnv, panel

from agentgym.agents.engines.card import PlaySettings
from agentgym.agents.engines.player import EngineAgent
from agentgym.agents.engines.transformers import TransformersEngine
from agentgym.agents.prompts import HintPlace, PromptBuilder, Step, Story, stories
from agentgym.agents.prompts.sets import FORMAT
from agentgym.episode import Episode
from agentgym.errors import UnknownNameError
from agentgym.rollout import Job, play
from agentgym.seeding import Seed


def played(engine: TransformersEngine, **settings: Any) -> tuple[Episode, PromptBuilder]:
    agent = EngineAgent(engine, PlaySettings(**{"max_tokens": 12, **settings}))
    episode = asyncio.run(play(GuessEnv(panel("easy")), agent, Job(3, 0, Seed((0, 3)))))
    assert episode.completed, episode.error
    return episode, agent.builder


@pytest.mark.parametrize("style", ["append", "windowed"])
@pytest.mark.parametrize("prompts", ["compact", "plain"])
@pytest.mark.parametrize("restrict", ["admissible", "none"])
def test_rebuilding_an_episode_gives_the_prompts_it_was_played_with(
    engine: TransformersEngine, style: str, prompts: str, restrict: str
) -> None:
    episode, builder = played(engine, style=style, prompts=prompts, restrict=restrict)
    assert builder.rebuild(episode) == [turn.prompt_ids for turn in episode.turns]
    read = Episode.from_json(episode.to_json())
    assert builder.rebuild(read) == builder.rebuild(episode)


def test_a_hint_is_in_every_fresh_prompt_and_once_in_a_growing_one(engine: TransformersEngine) -> None:
    for style in ("windowed", "append"):
        episode, builder = played(engine, style=style, restrict="admissible", prompts="compact")
        plain, informed = builder.rebuild(episode), builder.rebuild(episode, "SECRET word")
        texts = [str(engine.tokenizer.decode(list(ids))) for ids in informed]
        assert len(texts) > 1
        assert [("SECRET word" in text) for text in texts] == [style == "windowed" or n == 0 for n in range(len(texts))]
        assert style == "windowed" or informed[1:] == plain[1:]


PLACES = get_args(HintPlace)


@pytest.mark.parametrize("style", ["append", "windowed"])
@pytest.mark.parametrize("prompts", ["compact", "plain"])
def test_an_empty_hint_leaves_the_prompts_wherever_it_stands(
    engine: TransformersEngine, style: str, prompts: str
) -> None:
    episode, builder = played(engine, style=style, prompts=prompts, restrict="admissible")
    for place in PLACES:
        assert builder.rebuild(episode, "", place) == [turn.prompt_ids for turn in episode.turns]


@pytest.mark.parametrize("style", ["append", "windowed"])
@pytest.mark.parametrize("prompts", ["compact", "plain"])
def test_where_a_hint_stands(engine: TransformersEngine, style: str, prompts: str) -> None:
    episode, builder = played(engine, style=style, prompts=prompts, restrict="admissible")
    decode = engine.tokenizer.decode
    plain = [decode(list(ids)) for ids in builder.rebuild(episode)]
    hinted = {place: [decode(list(ids)) for ids in builder.rebuild(episode, "SECRET word", place)] for place in PLACES}
    assert len({tuple(texts) for texts in hinted.values()}) == (5 if (prompts, style) == ("compact", "append") else 6)
    for number, text in enumerate(plain):
        if number and style == "append":
            assert {texts[number] for texts in hinted.values()} == {text}
            continue
        said = text.removeprefix("<|user|>").removesuffix("<|end|><|assistant|>")
        expected = {
            "user_start": f"<|user|>SECRET word\n\n{said}<|end|><|assistant|>",
            "user_end": f"<|user|>{said}\n\nSECRET word<|end|><|assistant|>",
            "system": f"<|system|>SECRET word<|end|>{text}",
            "before_prompt": f"SECRET word\n\n{text}",
            "after_header": f"{text}SECRET word\n\n",
        }
        assert {place: hinted[place][number] for place in expected} == expected
        inside = hinted["before_format"][number]
        assert inside.replace("SECRET word\n\n", "").replace("\n\nSECRET word", "") == text
        if prompts == "plain":
            assert inside.endswith(f"\n\nSECRET word\n\n{FORMAT}<|end|><|assistant|>")


def test_a_growing_conversation_is_what_the_engine_read(engine: TransformersEngine) -> None:
    episode, _ = played(engine, style="append", restrict="admissible", prompts="compact")
    text = engine.tokenizer.decode([*episode.context_ids(len(episode.turns) - 1)])
    expected = "".join(
        f"<|user|>{turn.observation}<|end|><|assistant|>{turn.output_text}<|end|>" for turn in episode.turns[:-1]
    )
    assert text == f"{expected}<|user|>{episode.turns[-1].observation}<|end|><|assistant|>"


def test_history_is_limited(engine: TransformersEngine) -> None:
    steps = [Step(f"room {number}", None, f"go {number}") for number in range(5)]
    story = Story("", (*steps, Step("now")))
    ids = PromptBuilder(engine.encoder, "plain", "windowed", 2).build(story)
    text = str(engine.tokenizer.decode(list(ids)))
    assert "go 3" in text and "go 2" not in text


def test_stories_know_which_outputs_ended(make: Any, engine: TransformersEngine) -> None:
    end = engine.encoder.end_id
    turns = [make.turn(output_ids=(9, end)), make.turn(output_ids=(9,)), make.turn(output_ids=None), make.turn()]
    found = stories(make.episode(turns), end, "hint")
    assert [len(story.steps) for story in found] == [1, 2, 3, 4] and found[2].hint == "hint"
    assert [step.ended for step in found[3].steps] == [True, False, False, False]
    assert found[3].steps[-1].action is None and found[3].steps[0].action == "look"


def test_unknown_prompt_sets_are_refused(engine: TransformersEngine) -> None:
    with pytest.raises(UnknownNameError, match="prompt set 'nope'"):
        PromptBuilder(engine.encoder, "nope", "windowed")
