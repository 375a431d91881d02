"""Speed of ALFWorld on the games of a pack: of the engine, and of the environment as users meet it.

Plays every game of the pack (or the first N) with random admissible commands and prints: compile time per game, reset
time, median and 99th percentile of a step including the admissible list, steps per second over interleaved
episodes, and the cost of snapshots, keys and plans. Then the same through `env.step`, with the info dictionary and the
state key, the memory of an environment beyond its game, and many environments at once. Single process, wall-clock times
of this machine; steps per second also in processor time, which other processes disturb less.

    python benchmarks/alfworld_speed.py --pack DATA/alfworld/valid_unseen.jsonl.xz
"""

from __future__ import annotations

import argparse
import gc
import platform
import random
import statistics
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import ParamSpec, TypeVar

from agentgym.env import Info
from agentgym.envs.alfworld.engine import Engine
from agentgym.envs.alfworld.env import AlfworldEnv
from agentgym.envs.alfworld.game import compile_game
from agentgym.envs.alfworld.games import Games
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

    print("through the environment")
    games = Games("benchmark", records, str(options.pack))
    environments(games, options.steps, rng)
    for number in (options.episodes, 2000):
        interleaved(games, number, options.steps, rng)
    memory(games, 200, options.steps, rng)


def choose(info: Info, rng: random.Random) -> str:
    actions = info["admissible_actions"]
    assert actions is not None
    return rng.choice(actions)


def environments(games: Games, steps: int, rng: random.Random) -> None:
    """Times every `reset` and `step` of one environment that plays all games."""
    env = AlfworldEnv(games, max_steps=steps)
    resets: list[float] = []
    taken: list[float] = []
    for index in range(len(games.panel)):
        env.reset(seed=0, options={"task": index})  # compiles the game
        (_, info), seconds = timed(env.reset, seed=0, options={"task": index})
        resets.append(seconds)
        over = False
        while not over:
            (_, _, terminated, truncated, info), seconds = timed(env.step, choose(info, rng))
            taken.append(seconds)
            over = terminated or truncated
    report("env.reset", resets)
    report("env.step", taken)


def interleaved(games: Games, number: int, steps: int, rng: random.Random) -> None:
    """Plays many environments side by side, step by step."""
    envs = [AlfworldEnv(games, max_steps=steps + 1) for _ in range(number)]
    infos = [env.reset(seed=0, options={"task": i % len(games.panel)})[1] for i, env in enumerate(envs)]
    start, cpu = perf_counter(), process_time()
    for _ in range(steps):
        for i, env in enumerate(envs):
            infos[i] = env.step(choose(infos[i], rng))[4]
    wall, cpu = perf_counter() - start, process_time() - cpu
    total = number * steps
    print(
        f"{f'{number} environments':<28}{total / wall:15,.0f} steps/s   {total / cpu:,.0f} per second of processor time"
    )


def memory(games: Games, number: int, steps: int, rng: random.Random) -> None:
    """Prints what an environment takes beyond its game, fresh and at the end of an episode."""
    for index in range(len(games.panel)):
        games.game(index, games.logic_version)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    envs = [AlfworldEnv(games, max_steps=steps + 1) for _ in range(number)]
    infos = [env.reset(seed=0, options={"task": i % min(64, len(games.panel))})[1] for i, env in enumerate(envs)]
    fresh = tracemalloc.get_traced_memory()[0]
    for _ in range(steps):
        for i, env in enumerate(envs):
            infos[i] = env.step(choose(infos[i], rng))[4]
    played = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    sizes = (fresh - before) / number / 1000, (played - before) / number / 1000
    print(f"{'memory of an environment':<28}{sizes[0]:10.1f} kB fresh   {sizes[1]:.1f} kB after {steps} steps")


if __name__ == "__main__":
    main()
