"""A process that plays games with the original packages, alfworld and textworld; `textworld_backend` starts it.

It is run as a script and needs nothing of this project. The packages overwrite ``sys.argv``, print to standard output,
draw progress bars, set environment variables and keep global state in C; here nobody minds. Standard input brings one
JSON object a line, ``[operation, arguments…]``, and the first standard output takes one answer a line; what the
packages print goes to standard error. Invariant: each operation has exactly one answer, and the end of the input ends
the process.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable
from time import process_time
from typing import Any


class Player:
    """The original environment over the games below a folder, one game at a time."""

    def __init__(self) -> None:
        self._games: Any = None
        self._env: Any = None

    def open(self, folder: str, max_steps: int) -> dict[str, Any]:
        """Lets the original collect its games; returns their files, sorted."""
        original = importlib.import_module("alfworld.agents.environment.alfred_tw_env")
        config = {
            "dataset": {
                "data_path": folder,
                "eval_id_data_path": folder,
                "eval_ood_data_path": folder,
                "num_train_games": -1,
                "num_eval_games": -1,
            },
            "env": {
                "domain_randomization": False,
                "task_types": [1, 2, 3, 4, 5, 6],
                "expert_type": "handcoded",
                "goal_desc_human_anns_prob": 0.0,
            },
            "general": {"training_method": "dqn"},
            "rl": {"training": {"max_nb_steps_per_episode": max_steps}},
        }
        self._games = original.AlfredTWEnv(config, train_eval="eval_out_of_distribution")
        # The order of collection is that of the file system.
        self._games.game_files.sort()
        self._env = self._games.init_env(batch_size=1)
        return {"games": self._games.game_files}

    def start(self, game: str) -> dict[str, Any]:
        """Starts one of the collected games."""
        begin = process_time()
        self._env.gamefiles = [game]
        self._env.seed(0)  # starts the cycle of games anew
        observations, infos = self._env.reset()
        return answer(observations[0], 0, False, infos, process_time() - begin)

    def step(self, command: str) -> dict[str, Any]:
        """Carries out one command."""
        begin = process_time()
        observations, scores, dones, infos = self._env.step([command])
        return answer(observations[0], scores[0], dones[0], infos, process_time() - begin)


def answer(observation: str, score: int, done: bool, infos: dict[str, Any], seconds: float) -> dict[str, Any]:
    """What the original said, and the processor time it took."""
    return {
        "observation": observation,
        "admissible": infos["admissible_commands"][0],
        "won": bool(infos["won"][0]),
        "score": score,
        "done": bool(done),
        "seconds": seconds,
    }


def main() -> None:
    """Answers until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    player = Player()
    operations: dict[str, Callable[..., dict[str, Any]]] = {
        "open": player.open,
        "start": player.start,
        "step": player.step,
    }
    for line in sys.stdin:
        operation, *arguments = json.loads(line)
        try:
            reply = operations[operation](*arguments)
        except Exception as error:  # the other side decides what it means
            reply = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
