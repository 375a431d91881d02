"""Plays every official game: golden digests of the splits, and the oracle's plan of each game, executed.

Prints one line a split and a table of plan lengths per family; exits with 1 on any difference from the golden
digests, or if a plan is refused, wins early or does not win.

    python benchmarks/alfworld_exactness.py --data DATA/alfworld
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

from agentgym.envs.alfworld.engine import Engine
from agentgym.envs.alfworld.game import Game, compile_game
from agentgym.envs.alfworld.golden import SPLIT_DIGESTS, play_digest, split_digest
from agentgym.envs.alfworld.oracle import plan
from agentgym.envs.alfworld.pack import read_pack
from agentgym.envs.alfworld.record import FAMILIES


def solved(game: Game, commands: tuple[str, ...] | None) -> bool:
    """Whether the plan is accepted throughout and wins exactly at its end."""
    engine = Engine(game)
    for command in commands or ():
        if engine.won:
            return False
        engine.step(command)
        if not engine.accepted:
            return False
    return engine.won


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with SPLIT.jsonl.xz")
    parser.add_argument("--split", action="append", choices=sorted(SPLIT_DIGESTS), help="default: all three")
    options = parser.parse_args()
    failures = 0
    lengths: dict[str, list[int]] = {family: [] for family in FAMILIES}
    for split in options.split or sorted(SPLIT_DIGESTS):
        digests, commands, unsolved = [], 0, 0
        for record in read_pack(options.data / f"{split}.jsonl.xz"):
            game = compile_game(record)
            digests.append(play_digest(game))
            found = plan(Engine(game))
            unsolved += not solved(game, found)
            lengths[record.family].append(len(found or ()))
            commands += len(found or ())
        equal = split_digest(digests) == SPLIT_DIGESTS[split]
        failures += unsolved + (not equal)
        print(
            f"{split:<13} {len(digests):5} games   digest {'equal' if equal else 'DIFFERENT'}   "
            f"{commands:6} commands   {unsolved} unsolved"
        )
    for family, counts in lengths.items():
        if counts:
            print(
                f"{family:<13} {len(counts):5} games   {sum(counts):6} commands   mean {statistics.fmean(counts):.2f}"
                f"   min {min(counts)}   max {max(counts)}"
            )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
