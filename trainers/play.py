"""What a trainer plays: groups of episodes to learn from, and the fixed panel that it is measured on.

Invariant: what is played is a function of the seed, the iteration's number and the policy alone.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym import registry
from agentgym.agent import Agent
from agentgym.env import TextEnv
from agentgym.episode import Episode, Group
from agentgym.errors import AgentGymError
from agentgym.rollout import Begun, Job, rollout
from agentgym.seeding import Seed
from agentgym.task import Panel

from .config import Recipe
from .credit import PlayRequest
from .log import write_lines


@dataclass(frozen=True)
class Played:
    """One iteration's episodes.

    Attributes:
        groups: by task, broken episodes included.
        seconds: wall time of playing.
        read: tokens that were read to find out where trees branch.
    """

    groups: tuple[Group, ...]
    seconds: float
    read: int = 0

    @property
    def episodes(self) -> list[Episode]:
        """All episodes that were played to their end."""
        return [episode for group in self.groups for episode in group.episodes if episode.completed]


class Player:
    """Plays for one recipe.

    Args:
        recipe: says what is played.
        agent: the policy.
        eval_agent: the policy as it plays the fixed panel.
        root: root of the seeds.

    Raises:
        AgentGymError: for unknown names, missing data, or tasks that are in both panels.
    """

    def __init__(self, recipe: Recipe, agent: Agent, eval_agent: Agent, root: Seed) -> None:
        self._recipe = recipe
        self._agent = agent
        self._eval_agent = eval_agent
        self._root = root
        env = recipe.env
        self._panel = registry.panel(env.name, env.split, env.data or None, **env.made_with)
        self._eval_whole = registry.panel(env.name, env.eval_split, env.data or None, **env.made_with)
        self._eval_panel = _spread(self._eval_whole, recipe.eval.limit)
        _refuse_overlap(self._panel, self._eval_panel)

    def play(self, number: int, members: int | None = None) -> Played:
        """The groups of iteration ``number``; with ``members``, only so many of each group, from the first one on."""
        config = self._recipe.rollout
        members = config.group if members is None else members
        seed = self._root.child("rollout", number)
        jobs = [
            Job(index, member, seed.child(self._panel[index].id))
            for index in self.tasks(number)
            for member in range(members)
        ]
        began = time.perf_counter()
        found = self._rollout(jobs, self._recipe.env.split, self._agent)
        groups = tuple(Group(episodes=tuple(found[start : start + members])) for start in range(0, len(found), members))
        return Played(groups, time.perf_counter() - began)

    def play_on(self, requests: Sequence[PlayRequest], first: int) -> list[list[Episode]]:
        """Whole episodes that go on from recorded ones; none where the recorded state cannot be reached again.

        Args:
            requests: what is wanted; the episodes are of this player's training split.
            first: the lowest member number that is free in every group; further ones are taken as they are needed, so
                that each episode draws for itself.
        """
        env = self._make_env(self._recipe.env.split)
        taken: Counter[str] = Counter()
        jobs: list[list[Job]] = []
        try:
            for request in requests:
                episode, begun = request.episode, begun_at(env, request.episode, request.turn)
                members = range(taken[episode.task], taken[episode.task] + request.count)
                taken[episode.task] += request.count
                index, seed = self._panel.index(episode.task), Seed(episode.seed[:-1])
                reached = begun is not None or request.turn == 0
                jobs.append([Job(index, first + member, seed, begun) for member in members if reached])
        finally:
            env.close()
        found = iter(self._rollout([job for part in jobs for job in part], self._recipe.env.split, self._agent))
        return [[next(found) for _ in part] for part in jobs]

    def evaluate(self) -> list[Episode]:
        """The episodes of the fixed panel, with fixed seeds, so that two runs compare in pairs."""
        jobs = [
            Job(self._eval_whole.index(task), member, self._root.child("eval", task.id))
            for task in self._eval_panel
            for member in range(self._recipe.eval.repeats)
        ]
        return self._rollout(jobs, self._recipe.env.eval_split, self._eval_agent)

    def _rollout(self, jobs: Sequence[Job], split: str, agent: Agent) -> list[Episode]:
        """Episodes in the order of the jobs."""
        found: dict[tuple[int, int], Episode] = {}

        def note(job: Job, episode: Episode) -> None:
            found[job.index, job.member] = episode

        rollout(
            jobs,
            agent,
            lambda: self._make_env(split),
            concurrency=self._recipe.rollout.concurrency,
            on_episode=note,
        )
        return [found[job.index, job.member] for job in jobs]

    def _make_env(self, split: str) -> TextEnv:
        env = self._recipe.env
        return registry.make(env.name, split, env.data or None, **env.made_with)

    def tasks(self, number: int) -> list[int]:
        """Positions of the iteration's tasks: passes over the panel, each in an order of its own."""
        size = len(self._panel)
        wanted = min(self._recipe.rollout.tasks, size)
        chosen: list[int] = []
        position = number * wanted
        while len(chosen) < wanted:
            turn, place = divmod(position, size)
            order = self._root.child("order", turn).generator().permutation(size)
            # A task that is met twice in one iteration would be one group, not two.
            if int(order[place]) not in chosen:
                chosen.append(int(order[place]))
            position += 1
        return chosen


class Trials:
    """Plays what a credit method wants to see, and records it; none of it is trained on.

    Args:
        player: plays.
        first: the lowest member number that no group has.
        file: where the episodes are written, if there are any.

    Attributes:
        stats: episodes and tokens that were played beside the groups, and requests whose state was not reached.
    """

    def __init__(self, player: Player, first: int, file: Path) -> None:
        self._player = player
        self._first = first
        self._file = file
        self.stats = {"credit/extra_episodes": 0.0, "credit/extra_tokens": 0.0, "credit/unreached": 0.0}

    def play_on(self, requests: Sequence[PlayRequest]) -> list[list[Episode]]:
        """The whole episodes by request; none where the recorded state cannot be reached again."""
        answers = self._player.play_on(requests, self._first)
        episodes = [episode for part in answers for episode in part]
        write_lines(self._file, (episode.to_json() for episode in episodes))
        tokens = sum(len(turn.output_ids or ()) for episode in episodes for turn in episode.turns[episode.shared :])
        self.stats["credit/extra_episodes"] += len(episodes)
        self.stats["credit/extra_tokens"] += tokens
        self.stats["credit/unreached"] += sum(not part for part in answers)
        return answers


def begun_at(env: TextEnv, episode: Episode, turn: int) -> Begun | None:
    """Plays the recorded actions again up to a turn, and takes a snapshot there.

    Args:
        env: an environment whose panel holds the task.
        episode: the episode.
        turn: the turn that is not played; less than the number of turns.

    Returns:
        What goes on from there; None for turn 0, where there is nothing before, and where observations or states are
        not those that were recorded.
    """
    if turn == 0:
        return None
    seed = Seed(episode.seed[:-1]).child("env").value % (1 << 31)
    observation, info = env.reset(seed=seed, options={"task": episode.task})
    for past in episode.turns[:turn]:
        if (observation, info["state_key"]) != (past.observation, past.state_key):
            return None
        observation, _, terminated, truncated, info = env.step(past.action)
        if terminated or truncated:
            return None
    after = episode.turns[turn]
    if (observation, info["state_key"]) != (after.observation, after.state_key):
        return None
    return Begun(episode.member, episode.turns[:turn], observation, env.snapshot())


def rollout_stats(played: Played) -> dict[str, float]:
    """Shares and means over all episodes and turns of an iteration."""
    episodes = played.episodes
    planned = sum(len(group) for group in played.groups)
    stats = {"rollout/episodes": float(len(episodes)), "rollout/broken": float(planned - len(episodes))}
    stats["rollout/branched"] = float(sum(episode.branch is not None for episode in episodes))
    if not episodes:
        return stats
    turns = [turn for episode in episodes for turn in episode.turns]
    stats |= outcome_stats("rollout", episodes)
    stats["rollout/malformed"] = sum(not turn.well_formed for turn in turns) / max(1, len(turns))
    stats["rollout/refused"] = sum(turn.action_accepted is False for turn in turns) / max(1, len(turns))
    return stats


def outcome_stats(kind: str, episodes: Sequence[Episode]) -> dict[str, float]:
    """Success rate, mean score and mean number of turns of completed episodes, with ``kind/`` before their names."""
    stats = {
        f"{kind}/success": sum(bool(episode.success) for episode in episodes) / len(episodes),
        f"{kind}/steps": sum(len(episode.turns) for episode in episodes) / len(episodes),
    }
    scores = [episode.score for episode in episodes if episode.score is not None]
    if scores:
        stats[f"{kind}/score"] = sum(scores) / len(scores)
    return stats


def _spread(panel: Panel, limit: int | None) -> Panel:
    """At most ``limit`` tasks, evenly spaced, so that all families stay in."""
    if limit is None or limit >= len(panel):
        return panel
    chosen = tuple(panel[number * len(panel) // limit] for number in range(limit))
    return Panel(panel.env, panel.split, chosen, panel.source)


def _refuse_overlap(train: Panel, evaluation: Panel) -> None:
    shared = {task.digest for task in train} & {task.digest for task in evaluation}
    if shared:
        raise AgentGymError(
            f"{len(shared)} tasks of {evaluation.split} are also in {train.split} (same content); choose another split"
        )
