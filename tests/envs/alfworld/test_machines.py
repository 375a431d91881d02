"""Other machines: another order of directories, locale and hash seed, but the same panels and the same play."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import agentgym
from agentgym.envs.alfworld.convert import Logic, write_layout
from agentgym.envs.alfworld.generator import generate
from agentgym.envs.alfworld.record import FAMILIES

GRAMMAR = 'intro :: "Your task is to: UNKNOWN GOAL.";'
# Lists directories in an order of its own, imports a layout, and prints the hashes of the panel and of walks in it.
SCRIPT = """
import hashlib, os, random, sys
from pathlib import Path

order = random.Random(int(sys.argv[3]))
plain_scandir, plain_listdir = os.scandir, os.listdir

class Shuffled:
    def __init__(self, *arguments):
        with plain_scandir(*arguments) as entries:
            self.entries = sorted(entries, key=lambda entry: entry.name)
        order.shuffle(self.entries)
    def __enter__(self):
        return iter(self.entries)
    def __exit__(self, *arguments):
        pass
    def __iter__(self):
        return iter(self.entries)

os.scandir = Shuffled
os.listdir = lambda *arguments: order.sample(names := sorted(plain_listdir(*arguments)), len(names))

import agentgym
from agentgym.envs.alfworld import official
from agentgym.envs.alfworld.source import AlfworldData

official.logic_version = lambda domain, grammar, where: "0.4.2"
list(AlfworldData().take(Path(sys.argv[1]), Path(sys.argv[2]), upgrade=False))
shown = hashlib.sha256()
for split, data in (("train", sys.argv[2]), ("generated_valid", None), ("generated_train_12", None)):
    env = agentgym.make("alfworld", split=split, data=data, expert_plan=True, diagnostics=True)
    print(split, env.panel.hash)
    for index in range(0, len(env.panel), 5):
        result = env.reset(seed=index, options={"task": index})
        for step in range(20):
            shown.update(repr(result).encode())
            actions = result[-1]["admissible_actions"]
            result = env.step(actions[(31 * step + 17) % len(actions)])
print("walk", shown.hexdigest())
print((Path(sys.argv[2]) / "alfworld" / "manifest.json").read_text())
"""
MACHINES = [
    {"PYTHONHASHSEED": "0", "LC_ALL": "C", "PYTHONUTF8": "0"},
    {"PYTHONHASHSEED": "12345", "LC_ALL": "C.UTF-8", "TZ": "Asia/Tokyo"},
    {"PYTHONHASHSEED": "random", "LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"},
]


def test_machines_agree(tmp_path: Path) -> None:
    games = [
        dataclasses.replace(generate(21, family, index), split="train", human=("Çok güzel.",))
        for family in FAMILIES
        for index in range(2)
    ]
    write_layout(games, tmp_path / "layout", Logic("domain", GRAMMAR))
    seen = set()
    for number, machine in enumerate(MACHINES):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(tmp_path / "layout"), str(tmp_path / str(number)), str(number)],
            env={**os.environ, **machine},
            cwd=tmp_path,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        seen.add(done.stdout)
    assert len(seen) == 1
    assert b"walk " in seen.pop()
    packs = {(tmp_path / str(number) / "alfworld/train.jsonl.xz").read_bytes() for number in range(len(MACHINES))}
    assert len(packs) == 1


def test_the_order_of_play_is_that_of_ids(shared_data: Path) -> None:
    ids = [task.id for task in agentgym.panel("alfworld", split="valid_seen", data=shared_data)]
    assert ids == sorted(ids) and len(ids) == 140
