"""A tiny complete game, and access to official ones."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentgym.envs.alfworld.engine import Engine
from agentgym.envs.alfworld.game import Game, compile_game
from agentgym.envs.alfworld.record import Record


@pytest.fixture
def mini_json() -> dict[str, Any]:
    """Two cabinets, a counter with a sink at the same location, a mug with a spoon in it, an apple in nothing."""
    cabinets, counter, sink = ["cabinet_bar_1", "cabinet_bar_2"], "countertop_bar_1", "sink_bar_1_bar_sinkbasin"
    return {
        "id": "pick_clean_then_place_in_recep-Mug-None-Cabinet-900/trial_mini",
        "split": "generated",
        "type": "pick_clean_then_place_in_recep",
        "task": "put a clean mug in cabinet",
        "params": {
            "object_target": "Mug",
            "parent_target": "Cabinet",
            "toggle_target": "",
            "mrecep_target": "",
            "object_sliced": False,
        },
        "scene": "Mini",
        "human": [],
        "goal": ["isclean", "mugtype", "cabinettype"],
        "facts": {
            "receptacletype": [
                *([cabinet, "cabinettype"] for cabinet in cabinets),
                [counter, "countertoptype"],
                [sink, "sinkbasintype"],
            ],
            "objecttype": [
                ["apple_bar_1", "appletype"],
                ["butterknife_bar_1", "butterknifetype"],
                ["mug_bar_1", "mugtype"],
                ["mug_bar_2", "mugtype"],
                ["spoon_bar_1", "spoontype"],
            ],
            "pickupable": [["apple_bar_1"], ["butterknife_bar_1"], ["mug_bar_1"], ["mug_bar_2"], ["spoon_bar_1"]],
            "sliceable": [["apple_bar_1"]],
            "cleanable": [["mug_bar_1"], ["mug_bar_2"]],
            "isreceptacleobject": [["mug_bar_1"], ["mug_bar_2"]],
            "openable": [[cabinet] for cabinet in cabinets],
            "atlocation": [["agent1", "loc_bar_0"]],
            "receptacleatlocation": [
                ["cabinet_bar_1", "loc_bar_1"],
                ["cabinet_bar_2", "loc_bar_2"],
                [counter, "loc_bar_3"],
                [sink, "loc_bar_3"],
            ],
            "objectatlocation": [
                ["apple_bar_1", "loc_bar_3"],
                ["butterknife_bar_1", "loc_bar_3"],
                ["mug_bar_1", "loc_bar_3"],
                ["mug_bar_2", "loc_bar_1"],
                ["spoon_bar_1", "loc_bar_3"],
            ],
            "inreceptacle": [
                ["butterknife_bar_1", counter],
                ["mug_bar_1", counter],
                ["mug_bar_2", "cabinet_bar_1"],
                ["spoon_bar_1", counter],
            ],
            "inreceptacleobject": [["spoon_bar_1", "mug_bar_1"]],
        },
    }


@pytest.fixture
def mini_record(mini_json: dict[str, Any]) -> Record:
    return Record.from_json(mini_json, "mini.jsonl:1")


@pytest.fixture
def mini(mini_record: Record) -> Game:
    return compile_game(mini_record)


@pytest.fixture(scope="session")
def official_game(shared_data: Path) -> Callable[[str], Game]:
    """Find an official game by `<split> <start of the task folder>*<end of the trial folder>`."""

    def find(name: str) -> Game:
        split, pattern = name.split(" ")
        start, end = pattern.split("*")
        with lzma.open(shared_data / "alfworld" / f"{split}.jsonl.xz", "rt", encoding="utf-8") as lines:
            for line in lines:
                identifier = line[len('{"id":"') : line.index('",')]
                if identifier.startswith(start) and identifier.endswith(end):
                    return compile_game(Record.from_json(json.loads(line), identifier))
        raise LookupError(name)

    return find


@pytest.fixture(scope="session")
def play() -> Callable[..., str]:
    """Carry out commands that must all be admissible, and return the last feedback."""

    def run(engine: Engine, *commands: str) -> str:
        feedback = ""
        for command in commands:
            assert command in engine.admissible, (command, engine.admissible)
            feedback = engine.step(command)
            assert engine.accepted
        return feedback

    return run
