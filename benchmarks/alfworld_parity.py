"""Plays the compiled engine and the original ALFWorld together, prints every difference, and compares their speed.

Needs the original packages: pip install alfworld==0.4.2 textworld==1.7.0 (Python 3.12 or older). In one run it plays:

* random walks through N official games, spread over splits and families, with invalid and nearly valid commands, and a
  return to a snapshot in every third;
* the oracle's plans of M official games;
* the oracle's plans of generated games, two a family, which are written as a folder that the original collects itself.

Exits with 1 on any difference, or if a plan does not win in both.

Speed is processor time, so that other programs do not count: of the original inside its process, and of the compiled
engine through its public face, which plays the same commands of each walk again on its own, from a game that it has
not seen yet (so a start compiles it).

    python benchmarks/alfworld_parity.py --data DATA --games 60 --steps 60 --planned 12
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import statistics
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from time import perf_counter, process_time

from tqdm import tqdm

from agentgym.envs.alfworld.convert import installed_logic, write_layout
from agentgym.envs.alfworld.env import AlfworldEnv
from agentgym.envs.alfworld.games import OFFICIAL, Games, load
from agentgym.envs.alfworld.parity import Pair, Walk, planned_walk, random_walk, reply_differences
from agentgym.envs.alfworld.record import FAMILIES, Record
from agentgym.envs.alfworld.textworld_backend import OriginalProcess, TextworldEnv
from agentgym.task import Panel

GENERATED = "generated_valid"


def spread(panels: dict[str, Panel], rng: random.Random) -> Iterator[tuple[str, str]]:
    """Tasks as (split, id) in a random order that takes all splits and families in turn."""
    groups: list[list[tuple[str, str]]] = []
    for family in FAMILIES:
        for split, panel in panels.items():
            ids = [task.id for task in panel if task.family == family]
            groups.append([(split, identifier) for identifier in rng.sample(ids, len(ids))])
    for position in range(max(map(len, groups))):
        for group in groups:
            if position < len(group):
                yield group[position]


def generated_walks(per_family: int) -> tuple[int, int, list[str]]:
    """Plays generated games in a folder that the original collects: how many, how many it wins, and differences."""
    games = load(GENERATED, None)
    chosen = [
        record
        for family in FAMILIES
        for record in islice((record for record in games.records if record.family == family), per_family)
    ]
    compiled = AlfworldEnv(games, expert_plan=True)
    won, differences = 0, []
    with tempfile.TemporaryDirectory() as root, OriginalProcess() as original:
        folders = write_layout(chosen, root, installed_logic())
        collected = original.open(root, compiled.max_steps)
        if {Path(file).parent for file in collected} != set(folders):
            differences.append(f"the original collects {len(collected)} of {len(folders)} generated games")
        for file in tqdm(collected, "generated games", disable=None):
            identifier = "/".join(Path(file).parts[-3:-1])
            observation, info = compiled.reset(options={"task": identifier})
            reply, ended = original.start(file), False
            differences += [f"{identifier}: {name}" for name in reply_differences(reply, observation, info, ended)]
            for command in info.get("expert_plan") or ():
                observation, _, terminated, truncated, info = compiled.step(command)
                reply, ended = original.step(command), terminated or truncated
                found = reply_differences(reply, observation, info, ended)
                differences += [f"{identifier}, {command!r}: {name}" for name in found]
            won += reply.won and reply.done and ended
    return len(chosen), won, differences


def replay(record: Record, walk: Walk, max_steps: int) -> tuple[float, list[float]]:
    """Plays a walk in the compiled engine alone; seconds of the start and of each step."""
    env = AlfworldEnv(Games(record.split, (record,), "alone"), max_steps=max_steps)
    begin = process_time()
    env.reset(options={"task": 0})
    start = process_time() - begin
    seconds = []
    for command in walk.commands:
        begin = process_time()
        env.step(command)
        seconds.append(process_time() - begin)
    return start, seconds


def speed(name: str, original: list[float], compiled: list[float]) -> None:
    for label, average in (("median", statistics.median), ("mean", statistics.fmean)):
        slow, fast = average(original), average(compiled)
        print(
            f"{name:<6}{label:<8}original {slow * 1e3:9.1f} ms   compiled {fast * 1e6:9.1f} us   "
            f"ratio {slow / fast:8,.0f}   n {len(original)}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with alfworld/SPLIT.jsonl.xz")
    parser.add_argument("--games", type=int, default=60, help="official games for random walks (default 60)")
    parser.add_argument("--steps", type=int, default=60, help="steps per walk, and step limit (default 60)")
    parser.add_argument("--planned", type=int, default=12, help="official games for oracle walks (default 12)")
    parser.add_argument("--generated", type=int, default=2, help="generated games per family (default 2)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    begin = perf_counter()

    games = {split: load(split, options.data) for split in OFFICIAL}
    pairs = {
        split: Pair(
            TextworldEnv(split, options.data, max_steps=options.steps),
            AlfworldEnv(games[split], max_steps=options.steps),
        )
        for split in OFFICIAL
    }
    tasks = spread({split: games[split].panel for split in OFFICIAL}, rng)
    walks, starts, steps = [], [], []
    for number, (split, task) in enumerate(tqdm(list(islice(tasks, options.games)), "random walks", disable=None)):
        walk = random_walk(pairs[split], task, options.steps, rng, detour=0 if number % 3 else 5)
        start, seconds = replay(games[split].records[games[split].panel.index(task)], walk, options.steps)
        walks.append(walk)
        starts.append(start)
        steps += seconds
        pairs[split].original.close()
    walked = sum(pair.compared for pair in pairs.values())
    planned = list(islice(tasks, options.planned))
    wins = 0
    for split, task in tqdm(planned, "oracle walks", disable=None):
        wins += planned_walk(pairs[split], task)
        pairs[split].original.close()
    compared = sum(pair.compared for pair in pairs.values())
    differences = [line for pair in pairs.values() for line in pair.differences]
    generated, generated_wins, generated_differences = generated_walks(options.generated)

    for line in differences + generated_differences:
        print(line)
    machine = f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    print(f"{machine}, {perf_counter() - begin:.0f} s")
    print(
        f"random walks    {options.games} games, {len(steps)} steps, {walked} comparisons\n"
        f"oracle walks    {len(planned)} games, {wins} won in both, {compared - walked} comparisons\n"
        f"differences     {len(differences)}\n"
        f"generated       {generated} games, {generated_wins} won in both, {len(generated_differences)} differences"
    )
    if walks:
        speed("start", [walk.start for walk in walks], starts)
        speed("step", [seconds for walk in walks for seconds in walk.steps], steps)
    return int(bool(differences or generated_differences) or wins < len(planned) or generated_wins < generated)


if __name__ == "__main__":
    sys.exit(main())
