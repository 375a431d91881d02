"""How fast games are drawn, and how long their shortest plans are beside those of the official games.

    python benchmarks/alfworld_generator.py [--games N] [--seed S] [--level easy|hard]

Prints games per second of processor time, and per family the mean plan length, the official mean and their ratio.
"""

from __future__ import annotations

import argparse
import platform
import time

from agentgym.envs.alfworld.engine import Engine
from agentgym.envs.alfworld.game import compile_game
from agentgym.envs.alfworld.generator import LEVELS, difficulty_of, generate
from agentgym.envs.alfworld.oracle import plan
from agentgym.envs.alfworld.record import FAMILIES

# Mean commands of the oracle's plans over all 3,827 official games.
OFFICIAL = {"look": 3.63, "place": 4.16, "clean": 6.26, "heat": 6.24, "cool": 6.16, "two": 8.27}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=int, default=200, help="games per family")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--level", choices=LEVELS, help="difficulty; games as they come if left out")
    arguments = parser.parse_args()
    print(f"{platform.machine()}, Python {platform.python_version()}, {arguments.games} games per family")
    digests: set[str] = set()
    spent = 0.0
    for family in FAMILIES:
        difficulty = None if arguments.level is None else difficulty_of(family, arguments.level)
        start = time.process_time()
        records = [generate(arguments.seed, family, index, difficulty=difficulty) for index in range(arguments.games)]
        seconds = time.process_time() - start
        spent += seconds
        digests |= {record.digest for record in records}
        mean = sum(len(plan(Engine(compile_game(record))) or ()) for record in records) / len(records)
        print(
            f"{family:<6} {len(records) / seconds:6.0f} games/s   plan {mean:5.2f}   official {OFFICIAL[family]:5.2f}"
            f"   ratio {mean / OFFICIAL[family]:.2f}"
        )
    total = arguments.games * len(FAMILIES)
    print(f"all    {total / spent:6.0f} games/s   {len(digests)} of {total} distinct")


if __name__ == "__main__":
    main()
