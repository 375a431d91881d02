"""Writes every game of the packs in ALFWorld's layout and imports it again: the records must be the same.

Prints one line a split, and every game that differs; exits with 1 if there is one. Rules and wording come from the
installed alfworld 0.4.2, or from the game file that is named.

    python benchmarks/alfworld_roundtrip.py --data DATA --game-file DATA/…/game.tw-pddl
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from tqdm import tqdm

from agentgym.envs.alfworld.convert import game_file_logic, installed_logic, write_layout
from agentgym.envs.alfworld.games import OFFICIAL, load
from agentgym.envs.alfworld.generator import SPLITS as GENERATED
from agentgym.envs.alfworld.official import import_trial


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with alfworld/SPLIT.jsonl.xz")
    parser.add_argument("--game-file", type=Path, help="a game.tw-pddl of ALFWorld 0.4.2; default: installed alfworld")
    options = parser.parse_args()
    logic = installed_logic() if options.game_file is None else game_file_logic(options.game_file)
    total = 0
    for split in (*OFFICIAL, *GENERATED):
        begin = perf_counter()
        records = load(split, options.data).records
        different, unsolved = 0, 0
        for record in tqdm(records, split, disable=None):
            with tempfile.TemporaryDirectory() as root:
                (folder,) = write_layout([record], root, logic)
                unsolved += json.loads((folder / "game.tw-pddl").read_text(encoding="utf-8"))["walkthrough"] is None
                back = import_trial(folder)
            # Equal as JSON too: the predicates keep their order.
            if back != record or json.dumps(back.to_json()) != json.dumps(record.to_json()):
                different += 1
                print(f"{record.id} differs")
        total += different
        print(
            f"{split:<16}{len(records):5} games   {different} differences   {unsolved} without walkthrough   "
            f"{perf_counter() - begin:.0f} s"
        )
    return int(total > 0)


if __name__ == "__main__":
    sys.exit(main())
