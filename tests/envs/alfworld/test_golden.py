"""Digests that the original engine confirmed, so that equality here means equality with it."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

from agentgym.envs.alfworld.game import Game, compile_game
from agentgym.envs.alfworld.golden import SPLIT_DIGESTS, play_digest, split_digest
from agentgym.envs.alfworld.official import import_layout
from agentgym.envs.alfworld.pack import read_pack
from agentgym.envs.alfworld.record import Record

SAMPLE_DIGESTS = {
    "valid_seen": {
        "look": "94bc78fc220a98c6",
        "place": "9c560aba2b745587",
        "clean": "aaba0eca203537df",
        "cool": "8f2f1927cb7a7ca4",
        "heat": "97536b371c5c6884",
        "two": "52863edd6698434d",
    },
    "valid_unseen": {
        "look": "3946a69413ede007",
        "place": "e106a6735f00df7e",
        "clean": "62764dc2f43b5061",
        "cool": "9ac42a71f8dcd5bc",
        "heat": "8eb363c7beae99c7",
        "two": "2f393fb1a0d3ce64",
    },
}
# Every 50th training game, from an implementation whose digest of the whole split was correct.
TRAIN_SAMPLE = "1ff6d0776cf930ea480c718afddddd6a1c08e515f410195ed8f979c3b932b8f9"


def test_mini_game(mini: Game) -> None:
    assert play_digest(mini).startswith("0c425a28167d3b70")


@pytest.mark.parametrize("split", ["valid_seen", "valid_unseen"])
def test_whole_validation_splits(shared_data: Path, split: str) -> None:
    records = read_pack(shared_data / "alfworld" / f"{split}.jsonl.xz")
    assert split_digest(play_digest(compile_game(record)) for record in records) == SPLIT_DIGESTS[split]


def test_sample_of_the_training_split(shared_data: Path) -> None:
    with lzma.open(shared_data / "alfworld" / "train.jsonl.xz", "rb") as lines:
        records = [Record.from_json(json.loads(line), "train") for i, line in enumerate(lines) if i % 50 == 0]
    assert len(records) == 72
    assert split_digest(play_digest(compile_game(record)) for record in records) == TRAIN_SAMPLE


def test_games_in_the_official_layout(shared_data: Path) -> None:
    for split, imported in import_layout(shared_data / "alfworld" / "official_layout").items():
        digests = {record.family: play_digest(compile_game(record))[:16] for record in imported.records}
        assert digests == SAMPLE_DIGESTS[split]
