"""What SHARPO costs beside GRPO: processor time of the same training iteration, again and again, method after method.

Trains the small ALFWorld policy for one iteration with each method in turn, in one process and on one thread, after one
that warms up. With one seed both play the same episodes, so they do the same work but for SHARPO's teacher. Counted is
processor time, which other processes disturb less than the clock; evaluations are left out. A policy that was trained
further is given with ``--set policy.model=DIR``: the more groups hold a success, the more the teacher reads.

    OMP_NUM_THREADS=1 python benchmarks/sharpo_cost.py --out SOME/EMPTY/FOLDER
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import NoReturn

import torch
from tqdm import tqdm

from agentgym.trainers.config import Recipe, read_recipe
from agentgym.trainers.trainer import Trainer

RECIPES = Path(__file__).resolve().parent.parent / "recipes"
METHODS = ("grpo", "sharpo")


class Timed(Trainer):
    """A run without evaluations that notes the processor time of its iteration.

    Attributes:
        seconds: of the iteration.
    """

    def __init__(self, recipe: Recipe, out: Path) -> None:
        super().__init__(recipe, out)
        self.seconds = 0.0

    def _evaluate(self, bar: tqdm[NoReturn]) -> None:
        pass

    def _iterate(self, bar: tqdm[NoReturn]) -> None:
        began = time.process_time()
        super()._iterate(bar)
        self.seconds = time.process_time() - began


def main() -> None:
    """Prints a line for each iteration, and the ratio of the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="an empty folder")
    parser.add_argument("--rounds", type=int, default=5, help="iterations with each method")
    parser.add_argument("--set", dest="settings", action="append", default=[], help="as of agentgym train")
    options = parser.parse_args()
    torch.set_num_threads(1)

    def trained(method: str, name: str, *settings: str) -> Timed:
        (options.out / name).mkdir(parents=True)
        recipe = read_recipe(
            RECIPES / f"alfworld_{method}_small.toml", [*options.settings, "run.iterations=1", *settings]
        )
        run = Timed(recipe, options.out / name)
        run.run()
        return run

    trained("sharpo", "warm-up", "rollout.tasks=1")
    seconds: dict[str, list[float]] = {method: [] for method in METHODS}
    for number in range(options.rounds):
        for method in METHODS:
            run = trained(method, f"{method}-{number}")
            seconds[method].append(run.seconds)
            line = run.log.lines[-1]
            print(
                f"{method}: {run.seconds:.1f} s; success {line['rollout/success']:.2f}, groups with both outcomes "
                f"{line['group/active']:.2f}, turns with a peer {line.get('peer/coverage', 0.0):.2f}; "
                f"{line['update/tokens']:.0f} tokens trained on, {line['credit/teacher_tokens']:.0f} by the teacher",
                flush=True,
            )
    grpo, sharpo = (statistics.median(seconds[method]) for method in METHODS)
    print(f"SHARPO / GRPO: {sharpo / grpo:.3f} (medians of {options.rounds})")


if __name__ == "__main__":
    main()
