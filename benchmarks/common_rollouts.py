"""How many episodes two training runs have in common, token by token, in each iteration.

agentgym train recipes/alfworld_grpo_small.toml --out runs/grpo --set run.iterations=2
agentgym train recipes/alfworld_sharpo_small.toml --out runs/sharpo --set run.iterations=2
python benchmarks/common_rollouts.py runs/grpo runs/sharpo
"""

from __future__ import annotations

import argparse
from pathlib import Path

from agentgym.episode import Episode, read_episodes


def main() -> None:
    """Prints one line for each iteration that both runs have."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs=2)
    one, other = parser.parse_args().runs
    for file in sorted((one / "rollouts").glob("*.jsonl")):
        twin = other / "rollouts" / file.name
        if twin.is_file():
            pairs = list(zip(read_episodes(file), read_episodes(twin), strict=True))
            same = sum(_ids(first) == _ids(second) for first, second in pairs)
            print(f"iteration {int(file.stem)}: {same} of {len(pairs)} episodes are the same")


def _ids(episode: Episode) -> list[object]:
    return [episode.task, episode.member, *(turn.output_ids for turn in episode.turns)]


if __name__ == "__main__":
    main()
