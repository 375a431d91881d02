from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from agentgym_guess import SPEC, GuessEnv, panel

from agentgym.agent import Agent, Opening, Player, Traits
from agentgym.agents import make_agent
from agentgym.agents.scripted import FALLBACK, RandomPlayer, adapt
from agentgym.env import Info
from agentgym.episode import Episode
from agentgym.errors import ConfigError, UnknownNameError
from agentgym.rollout import Job, play
from agentgym.seeding import Seed


def episode(agent: Agent, index: int = 3, member: int = 0) -> Episode:
    env = GuessEnv(panel("easy"), **agent.traits.env_options)  # type: ignore[arg-type]
    return asyncio.run(play(env, agent, Job(index, member, Seed((0, index)))))


def test_random_is_uniform_and_fixed_by_the_seed() -> None:
    agent = make_agent(SPEC, "random", settings={})
    first, again, other = episode(agent), episode(agent), episode(agent, member=1)
    assert [turn.action for turn in first.turns] == [turn.action for turn in again.turns]
    assert [turn.action for turn in first.turns] != [turn.action for turn in other.turns]
    _, info = GuessEnv(panel("easy")).reset(seed=0)
    player = RandomPlayer(Opening(panel("easy")[0], Seed((0,)), GuessEnv(panel("easy")).parse))
    counts = Counter(player.act("", info) for _ in range(1100))
    assert len(counts) == 11 and all(60 < count < 140 for count in counts.values())
    info["admissible_actions"] = None
    assert player.act("", info) == FALLBACK


def test_expert_follows_the_plan_and_says_where_there_is_none() -> None:
    agent = make_agent(SPEC, "expert", settings={})
    played = episode(agent, index=7)
    assert played.success and [turn.action for turn in played.turns] == ["guess 7"]

    class Planless(GuessEnv):
        def _plan(self) -> None:
            return None

    env = Planless(panel("easy"), expert_plan=True)
    with pytest.raises(ConfigError, match="'guess' gives no plan"):
        asyncio.run(play(env, agent, Job(0, 0, Seed((0,)))))


def test_the_environments_own_agent_gets_a_player_for_each_episode() -> None:
    agent = make_agent(SPEC, "slow", settings={})
    assert [episode(agent, index).success for index in (2, 2)] == [True, True]
    assert agent.traits.name == "slow"


class Mine:
    def __init__(self) -> None:
        self.number = -1

    def act(self, observation: str, info: Info) -> str:
        self.number += 1
        return f"guess {self.number}"


async def function(observation: str, info: Info) -> str:
    return "guess 3"


class WholeAgent:
    traits = Traits("whole")

    def start(self, opening: Opening, /) -> Player:
        return Mine()

    def finish(self, player: Player, /) -> None:
        pass


class Nothing:
    pass


@pytest.mark.parametrize(
    "found", [Mine, function, WholeAgent, WholeAgent()], ids=["class", "function", "agents", "agent"]
)
def test_objects_of_users(found: object) -> None:
    agent = adapt("mine", found)
    assert [episode(agent).success for _ in range(2)] == [True, True]
    assert episode(agent).agent in ("mine", "whole")


@pytest.mark.parametrize("found", [Nothing, Nothing(), 3, Mine()])
def test_objects_that_are_no_agent(found: object) -> None:
    with pytest.raises(ConfigError, match="mine is not an agent"):
        adapt("mine", found)


def test_agents_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_agents.py").write_text("def three(observation, info):\n    return 'guess 3'\n")
    (tmp_path / "my_broken.py").write_text("import agentgym\n1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert episode(make_agent(SPEC, "my_agents:three", settings={})).success
    with pytest.raises(UnknownNameError, match="did you mean 'three'"):
        make_agent(SPEC, "my_agents:tree", settings={})
    with pytest.raises(UnknownNameError, match="no_such_module"):
        make_agent(SPEC, "no_such_module:x", settings={})
    with pytest.raises(ConfigError, match=r"my_broken cannot be imported \(ZeroDivisionError"):
        make_agent(SPEC, "my_broken:x", settings={})
    with pytest.raises(ConfigError, match=r"package\.module:object"):
        make_agent(SPEC, "my_agents:", settings={})


@pytest.mark.parametrize(
    ("name", "suggestion"), [("exprt", "expert"), ("ramdom", "random"), ("slwo", "slow"), ("lm", "llm")]
)
def test_unknown_agents(name: str, suggestion: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        make_agent(SPEC, name, settings={})
    assert caught.value.suggestion == suggestion


def test_what_an_agent_does_not_take() -> None:
    with pytest.raises(UnknownNameError, match="setting of agent 'random' 'temperature'"):
        make_agent(SPEC, "random", settings={"temperature": "1"})
    with pytest.raises(ConfigError, match="no model"):
        make_agent(SPEC, "expert", model="hf/x", settings={})
    with pytest.raises(ConfigError, match="--model"):
        make_agent(SPEC, "llm", settings={})
