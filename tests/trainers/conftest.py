"""Small hand-made episodes, groups and a scorer whose answers are known."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_policy
import torch
from agentgym_guess import GuessEnv, panel
from safetensors.torch import load_file
from tiny_runs import RECIPE, Run

from agentgym.agents.engines.player import EngineAgent
from agentgym.episode import Episode, Group, Status, Turn
from agentgym.rollout import Job, rollout
from agentgym.seeding import Seed
from agentgym.trainers import commands
from agentgym.trainers import trainer as trainer_module
from agentgym.trainers.credit import ScoreRequest, TurnScores
from agentgym.trainers.play import Played, Player
from agentgym.trainers.policy import Policy

PLAIN = -2.0
"""Log-probability of every token without a hint."""


class Build:
    """Makes turns, episodes and groups with only what a test cares about."""

    @staticmethod
    def turn(
        length: int = 12,
        span: tuple[int, int] | None = (2, 8),
        *,
        well_formed: bool = True,
        accepted: bool | None = True,
        tokens: bool = True,
    ) -> Turn:
        return Turn(
            observation="a room",
            output_ids=tuple(range(length)) if tokens else None,
            output_logprobs=(PLAIN,) * length if tokens else None,
            output_text="<action>look</action>",
            action="look",
            action_chars=(8, 12),
            action_span=span,
            well_formed=well_formed,
            action_accepted=accepted,
            reward=0.0,
        )

    @classmethod
    def episode(
        cls,
        turns: Sequence[Turn] | int = 3,
        *,
        success: bool | None = False,
        member: int = 0,
        score: float | None = None,
        total: float = 0.0,
        status: Status = "ok",
    ) -> Episode:
        return Episode(
            env="toy",
            split="train",
            task="task-0",
            task_digest="digest",
            family="family",
            member=member,
            seed=("run", "task-0", member),
            agent="policy",
            turns=tuple(cls.turn() for _ in range(turns)) if isinstance(turns, int) else tuple(turns),
            status=status,
            success=success,
            score=score,
            episode_return=total,
        )

    @classmethod
    def group(cls, outcomes: Sequence[bool], turns: Sequence[int] | None = None) -> Group:
        turns = turns or [3] * len(outcomes)
        pairs = enumerate(zip(outcomes, turns, strict=True))
        return Group(episodes=tuple(cls.episode(n, success=won, member=i) for i, (won, n) in pairs))


class GapScorer:
    """Without a hint every token has ``PLAIN``; with one, a turn's tokens gain what ``gap`` says.

    Args:
        gap: from episode and turn index to one number, or one number a token.
        fits: whether hints fit into the context.
    """

    def __init__(
        self, gap: Callable[[Episode, int], float | Sequence[float]] = lambda episode, turn: 0.0, fits: bool = True
    ) -> None:
        self.gap = gap
        self.fits = fits
        self.asked: list[ScoreRequest] = []
        self.calls = 0

    def score(self, requests: Sequence[ScoreRequest]) -> list[TurnScores | None]:
        self.calls += 1
        self.asked += requests
        return [self._answer(request) for request in requests]

    def _answer(self, request: ScoreRequest) -> TurnScores | None:
        if request.hint is not None and not self.fits:
            return None
        answer: TurnScores = []
        for index, turn in enumerate(request.episode.turns):
            plain = np.full(len(turn.output_ids or ()), PLAIN)
            shift = 0.0 if request.hint is None else np.asarray(self.gap(request.episode, index))
            answer.append((plain + shift).astype(np.float32))
        return answer


@pytest.fixture(scope="session")
def build() -> Build:
    return Build()


@pytest.fixture(scope="session")
def gap_scorer() -> type[GapScorer]:
    return GapScorer


@pytest.fixture(scope="session")
def policy() -> Policy:
    """Shared: tests do not change its weights."""
    return tiny_policy.policy()


class Play:
    """Real episodes of a guessing game."""

    @staticmethod
    def episodes(policy: Policy, count: int = 4, *, index: int = 3, max_steps: int = 5) -> list[Episode]:
        found: dict[int, Episode] = {}
        rollout(
            [Job(index, member, Seed((0, index))) for member in range(count)],
            EngineAgent(policy.engine, policy.settings),
            lambda: GuessEnv(panel("easy"), max_steps=max_steps),
            on_episode=lambda job, episode: found.update({job.member: episode}),
        )
        assert all(episode.completed for episode in found.values()), found
        return [found[member] for member in range(count)]


@pytest.fixture(scope="session")
def play_guess() -> Play:
    return Play()


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("policy") / "tiny"
    tiny_policy.policy(sharpness=6.0).save(path)
    return path


@pytest.fixture(scope="module")
def recipe(start: Path) -> Path:
    path = start.parent / "recipe.toml"
    path.write_text(RECIPE.format(model=start))
    return path


@pytest.fixture(scope="module")
def run(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    """Runs once for each set of overrides."""
    done: dict[tuple[str, ...], Run] = {}

    def train(*overrides: str) -> Run:
        if overrides not in done:
            out = tmp_path_factory.mktemp("run") / "out"
            commands.train(recipe, out, overrides)
            done[overrides] = Run(out)
        return done[overrides]

    return train


Trained = tuple[dict[str, Any], dict[str, torch.Tensor]]
"""The numbers of an iteration, and the weights after it."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Trained]]:
    """Trains a recipe with overrides, which have one iteration; its episodes are the same for all, and played once."""
    played: list[Played] = []
    original = Player.play

    def play(self: Player, number: int, members: int | None = None) -> Played:
        if not played:
            played.append(original(self, number))
        groups = tuple(Group(episodes=group.episodes[:members]) for group in played[0].groups)
        return Played(groups, played[0].seconds)

    def evaluate(self: Player) -> list[Episode]:
        return []

    def train(recipe: Path, *overrides: str) -> Trained:
        out = tmp_path_factory.mktemp("trained") / "out"
        last = commands.train(recipe, out, overrides)
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        (line,) = [line for line in lines if line["kind"] == "train"]
        return line, load_file(last / "model.safetensors")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Player, "play", play)
        patch.setattr(Player, "evaluate", evaluate)
        patch.setattr(trainer_module, "draw_curves", lambda *_, **__: None)
        yield cache(train)
