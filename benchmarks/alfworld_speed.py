"""Speed of the ALFWorld engine on the games of a pack.

Plays every game of the pack (or the first N) with random admissible commands and prints: compile time per game, reset
time, median and 99th percentile of a step including the admissible list, steps per second over interleaved
episodes, and the cost of snapshots, keys and plans. Single process, wall-clock times of this machine.

    python benchmarks/alfworld_speed.py --pack DATA/alfworld/valid_unseen.jsonl.xz
"""

from __future__ import annotations

import argparse
import platform
import random
import statistics
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import ParamSpec, TypeVar

from agentgym.envs.alfworld.engine import Engine
from agentgym.envs.alfworld.game import compile_game
from agentgym.envs.alfworld.oracle import plan
from agentgym.envs.alfworld.pack import read_pack

P = ParamSpec("P")
T = TypeVar("T")


def timed(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> tuple[T, float]:
    """Run a function and return its result and the seconds it took."""
    start = perf_counter()
    result = function(*args, **kwargs)
    return result, perf_counter() - start


def report(name: str, seconds: list[float], unit: str = "us") -> None:
    scale = {"us": 1e6, "ms": 1e3}[unit]
    ordered = sorted(seconds)
    p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    figures = (("median", statistics.median(ordered)), ("mean", statistics.fmean(ordered)), ("p99", p99))
    shown = "".join(f"{label} {value * scale:8.1f} {unit}   " for label, value in figures)
    print(f"{name:<28}{shown}n {len(ordered)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", type=Path, required=True, help="a pack of games, FILE.jsonl.xz")
    parser.add_argument("--limit", type=int, default=150, help="at most that many games (default 150)")
    parser.add_argument("--steps", type=int, default=50, help="steps per episode (default 50)")
    parser.add_argument("--episodes", type=int, default=64, help="interleaved episodes for steps/s (default 64)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)

    records, seconds = timed(read_pack, options.pack)
    print(f"{platform.platform()}, Python {platform.python_version()}, {options.pack.name}")
    print(f"{'read the pack':<28}{seconds * 1e3:15.1f} ms   {len(records)} games")
    records = records[: options.limit]
    compiled = [timed(compile_game, record) for record in records]
    report("compile a game", [seconds for _, seconds in compiled], "ms")
    engines, starts = zip(*[timed(Engine, game) for game, _ in compiled], strict=True)
    resets, steps, snapshots, restores, clones, keys = [], [], [], [], [], []
    for engine in engines:
        engine.admissible  # noqa: B018
        resets.append(timed(engine.reset)[1])
        for _ in range(options.steps):
            command = rng.choice(engine.admissible)
            start = perf_counter()
            engine.step(command)
            engine.admissible  # noqa: B018
            engine.won  # noqa: B018
            steps.append(perf_counter() - start)
        saved, seconds = timed(engine.snapshot)
        snapshots.append(seconds)
        restores.append(timed(engine.restore, saved)[1])
        clones.append(timed(engine.clone)[1])
        start = perf_counter()
        engine.observation_key  # noqa: B018
        keys.append(perf_counter() - start)
    report("new engine", list(starts))
    report("reset", resets)
    report("step, list, won", steps)
    report("snapshot", snapshots)
    report("restore", restores)
    report("clone", clones)
    report("observation key", keys)
    for engine in engines:
        engine.reset()
    report("plan", [timed(plan, engine)[1] for engine in engines], "ms")

    episodes = [Engine(engines[i % len(engines)].game) for i in range(options.episodes)]
    start = perf_counter()
    for _ in range(options.steps):
        for episode in episodes:
            episode.step(rng.choice(episode.admissible))
    total = len(episodes) * options.steps
    print(f"{'interleaved episodes':<28}{total / (perf_counter() - start):15,.0f} steps/s   {len(episodes)} episodes")


if __name__ == "__main__":
    main()
