"""Episodes that cost money: what is recorded, and what happens when the money is spent."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

import agentgym
from agentgym.agent import Opening, Player, Traits
from agentgym.budget import Budget
from agentgym.env import Info
from agentgym.errors import BudgetError, EngineError
from agentgym.evaluate import evaluate


class OnePlayer:
    def __init__(self, agent: Payer, secret: int) -> None:
        self.agent = agent
        self.secret = secret
        self.cost = 0.0
        self.guesses = 0

    async def act(self, observation: str, info: Info, /) -> str:
        budget = self.agent.budget
        await budget.hold(0.5)
        await asyncio.sleep(0)
        budget.settle(0.5, 0.25)
        self.cost += 0.25
        self.guesses += 1
        if self.secret == 7 and self.agent.failures > 0:
            self.agent.failures -= 1
            raise EngineError("down")
        return "pass" if self.guesses == 1 else f"guess {self.secret}"


class Payer:
    """Two requests an episode, 0.25 each; the first ``failures`` requests for a task of its own are paid in vain."""

    def __init__(self, limit: float | None = None, failures: int = 0) -> None:
        self.budget = Budget(limit)
        self.failures = failures

    @property
    def traits(self) -> Traits:
        return Traits("payer", budget=self.budget, free_settings=("budget",))

    def start(self, opening: Opening, /) -> Player:
        return OnePlayer(self, int(opening.task.id[-3:]) % 10)

    def finish(self, player: Player, /) -> float | None:
        return player.cost if isinstance(player, OnePlayer) else None


def test_what_was_paid_in_vain_is_counted(tmp_path: Path) -> None:
    summary = evaluate("guess", Payer(failures=2), out=tmp_path / "mended")
    assert summary.broken == 0 and summary.cost == 12 * 0.5 + 2 * 0.25
    down = evaluate("guess", Payer(failures=3), out=tmp_path / "broken")
    assert down.broken == 1 and down.cost == 11 * 0.5 + 3 * 0.25
    again = Payer(failures=1)
    assert evaluate("guess", again, out=tmp_path / "broken").cost == 12 * 0.5 + 4 * 0.25 == again.budget.spent


@pytest.mark.parametrize("concurrency", [1, 3, 64])
def test_a_spent_budget_stops_the_run_and_a_larger_one_goes_on(tmp_path: Path, concurrency: int) -> None:
    def play(limit: float | None) -> None:
        evaluate("guess", Payer(limit), out=tmp_path, concurrency=concurrency, settings={"budget": str(limit)})

    paid = 0.0
    for limit in (0.4, 2.1, 2.1, 4.0):
        with pytest.raises(BudgetError, match="larger budget goes on"):
            play(limit)
        paid = sum(episode.cost or 0.0 for episode in agentgym.load_episodes(tmp_path))
        # Not even one more request would have fitted.
        assert paid <= limit < paid + 0.5
        assert json.loads((tmp_path / "summary.json").read_text())["cost"] == (paid or None)
    play(None)
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["overall"]["episodes"] == summary["overall"]["successes"] == 12
    episodes = list(agentgym.load_episodes(tmp_path))
    assert summary["cost"] == sum(episode.cost or 0.0 for episode in episodes) > paid
    assert {episode.status for episode in episodes} <= {"ok", "out_of_budget"}
    assert all(episode.success is None for episode in episodes if episode.status == "out_of_budget")


@pytest.mark.parametrize("answer", ["much", float("nan"), [1.0]])
def test_a_cost_that_is_no_number_breaks_its_episode_only(tmp_path: Path, answer: object) -> None:
    class Odd(Payer):
        def finish(self, player: Player, /) -> float | None:
            return answer  # type: ignore[return-value]

    summary = evaluate("guess", Odd(), out=tmp_path)
    assert summary.overall.errors == {"agent_error": 12} and "finish() returned" in str(summary.first_error)
