"""Walking the compiled engine and the original together, and comparing all that they show.

Invariant: whatever both faces show is compared after every reset, step and restore: observation, admissible commands in
their order, reward, success, score, acceptance, and the end of the episode, where the original's own verdict counts.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from agentgym.env import Info

from .env import AlfworldEnv
from .oracle import plan
from .textworld_backend import Reply, TextworldEnv

INVALID = 0.15
"""Share of commands in a random walk that are invalid, or nearly valid."""

_ALWAYS = ("help", "inventory", "look")
_JUNK = ("", "Look", "xyzzy", "go to nowhere 1", "take apple 1", "put x in/on y", "open", "look around", "examine room")


class Shown(NamedTuple):
    """What an environment shows after a reset (without reward and end) or a step."""

    observation: str
    reward: float
    terminated: bool
    truncated: bool
    info: Info


class Walk(NamedTuple):
    """A walk from a reset on, and the processor time that the original took for it.

    Attributes:
        task: id of the task.
        commands: the commands, without those of a detour.
        start: seconds of the reset.
        steps: seconds of each command.
    """

    task: str
    commands: tuple[str, ...]
    start: float
    steps: tuple[float, ...]


class Pair:
    """The two environments in the same episode.

    Attributes:
        differences: one line for each thing that differed, in order.
        last: what the compiled environment showed last.
        compared: how often all was compared.
    """

    def __init__(self, original: TextworldEnv, compiled: AlfworldEnv) -> None:
        self.original = original
        self.compiled = compiled
        self.differences: list[str] = []
        self.compared = 0

    def reset(self, task: str) -> float:
        """Starts a task in both; returns the seconds that the original took."""
        observation, info = self.original.reset(seed=0, options={"task": task})
        original = Shown(observation, 0.0, False, False, info)
        observation, info = self.compiled.reset(seed=0, options={"task": task})
        self._compare("reset", original, Shown(observation, 0.0, False, False, info))
        return self.original.reply.seconds

    def step(self, command: str) -> float:
        """Carries out a command in both; returns the seconds that the original took."""
        original = Shown(*self.original.step(command))
        self._compare(command, original, Shown(*self.compiled.step(command)))
        return self.original.reply.seconds

    def snapshot(self) -> tuple[bytes, bytes]:
        """The present state of both."""
        return self.original.snapshot(), self.compiled.snapshot()

    def restore(self, saved: tuple[bytes, bytes]) -> None:
        """Returns both to a saved state; the original plays its commands again."""
        observation, info = self.original.restore(saved[0])
        original = Shown(observation, 0.0, False, False, info)
        observation, info = self.compiled.restore(saved[1])
        self._compare("restore", original, Shown(observation, 0.0, False, False, info))

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return self.last.terminated or self.last.truncated

    def _compare(self, command: str, original: Shown, compiled: Shown) -> None:
        self.last = compiled
        self.compared += 1
        where = f"{compiled.info['task']}, step {self.compiled.steps}, {command!r}"
        fields = [name for name in Shown._fields if name != "info"]
        pairs = {name: (getattr(original, name), getattr(compiled, name)) for name in fields}
        for key in ("task", "goal", "admissible_actions", "action_accepted", "success", "score", "segment"):
            pairs[key] = (original.info[key], compiled.info[key])
        pairs["done"] = (self.original.reply.done, self.over)
        self.differences += [
            f"{where}: {name} is {theirs!r} in the original, {ours!r} here"
            for name, (theirs, ours) in pairs.items()
            if theirs != ours
        ]


def random_walk(pair: Pair, task: str, steps: int, rng: random.Random, *, detour: int = 5) -> Walk:
    """Walks at random in both, leaves the path for a while and returns to it by a snapshot.

    Args:
        pair: the two environments.
        task: id of the task.
        steps: length of the walk; it ends early when the episode does.
        rng: draws everything.
        detour: commands between the snapshot, a sixth of the way in, and the return to it; 0 for no detour.
    """
    start = pair.reset(task)
    taken: list[str] = []
    seconds: list[float] = []
    while len(taken) < steps and not pair.over:
        if detour and len(taken) == steps // 6:
            saved = pair.snapshot()
            for _ in range(detour):
                if not pair.over:
                    pair.step(draw_command(rng, pair.last.info["admissible_actions"] or (), taken))
            pair.restore(saved)
            detour = 0
        command = draw_command(rng, pair.last.info["admissible_actions"] or (), taken)
        seconds.append(pair.step(command))
        taken.append(command)
    return Walk(task, tuple(taken), start, tuple(seconds))


def planned_walk(pair: Pair, task: str) -> bool:
    """Plays the oracle's plan in both; returns whether it wins, at its last command and in both."""
    pair.reset(task)
    for command in plan(pair.compiled.engine) or ():
        if pair.over:
            return False
        pair.step(command)
    return pair.last.terminated and pair.original.reply.won


def draw_command(rng: random.Random, admissible: tuple[str, ...], taken: list[str]) -> str:
    """Draws the next command of a random walk.

    A share `INVALID` of the commands is not admissible or almost so. Of the others, 60 % act on things where there is
    anything to act on, the verb drawn first, so that rare verbs come up.
    """
    if rng.random() < INVALID:
        return _invalid(rng, admissible, taken)
    acting = [command for command in admissible if not command.startswith("go to ") and command not in _ALWAYS]
    if acting and rng.random() < 0.6:
        verb = rng.choice(sorted({command.split(" ")[0] for command in acting}))
        return rng.choice([command for command in acting if command.startswith(verb + " ")])
    return rng.choice(admissible)


def _invalid(rng: random.Random, admissible: tuple[str, ...], taken: list[str]) -> str:
    command = rng.choice(admissible)
    words = command.split(" ")
    return rng.choice(
        (
            rng.choice(_JUNK),
            rng.choice(taken or _JUNK),  # perhaps no longer admissible
            command.upper(),
            command.title(),
            "  ".join(words),
            f"  {command}\t\n",  # surrounding white space does not count
            f"{command}.",
            " ".join(words[:-1]),
            " ".join((*words[:-1], str(rng.randrange(100)))),
            command.replace("take ", "pick up ").replace("move ", "put ").replace(" to ", " in/on "),
            " ".join(rng.sample(words, len(words))),
        )
    )


def reply_differences(reply: Reply, observation: str, info: Info, ended: bool) -> list[str]:
    """Compares a reply of the original's process with what the compiled environment shows; names what differs."""
    pairs = {
        "observation": (reply.observation, observation),
        "admissible commands": (reply.admissible, info["admissible_actions"]),
        "won": (reply.won, info["success"]),
        "score": (reply.score, info["score"]),
        "end": (reply.done, ended),
    }
    return [name for name, (theirs, ours) in pairs.items() if theirs != ours]
