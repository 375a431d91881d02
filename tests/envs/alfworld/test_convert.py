from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from agentgym.envs.alfworld import convert
from agentgym.envs.alfworld.convert import Logic, game_file_logic, installed_logic, problem, write_layout
from agentgym.envs.alfworld.engine import Engine
from agentgym.envs.alfworld.game import compile_game
from agentgym.envs.alfworld.games import load
from agentgym.envs.alfworld.official import import_layout, import_split, import_trial
from agentgym.envs.alfworld.pack import read_pack
from agentgym.envs.alfworld.record import FAMILIES, Record
from agentgym.errors import ConfigError, DataError

GAME, TRAJ = "game.tw-pddl", "traj_data.json"


@pytest.fixture(scope="module")
def layout(shared_data: Path) -> Path:
    return shared_data / "alfworld" / "official_layout"


@pytest.fixture(scope="module")
def logic(layout: Path) -> Logic:
    return game_file_logic(sorted(layout.glob(f"*/*/*/*/{GAME}"))[0])


def content(folder: Path, name: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((folder / name).read_text())
    return value


def test_official_games_survive_the_round_trip(shared_data: Path, logic: Logic, tmp_path: Path) -> None:
    for split in ("valid_seen", "valid_unseen"):
        records = read_pack(shared_data / "alfworld" / f"{split}.jsonl.xz")
        sample = [record for family in FAMILIES for record in [r for r in records if r.family == family][:4]]
        folders = write_layout(sample, tmp_path, logic)
        assert [import_trial(folder) for folder in folders] == sample
        imported = import_split(tmp_path / "json_2.1.1" / split)
        assert list(imported.records) == sorted(sample, key=lambda record: record.id) and imported.skipped == {}
        for record, folder in zip(sample, folders, strict=True):
            assert json.dumps(import_trial(folder).to_json()) == json.dumps(record.to_json())


def test_generated_games_survive_the_round_trip(logic: Logic, tmp_path: Path, mini_record: Record) -> None:
    records = [*load("generated_valid", None).records[::10], mini_record]
    folders = write_layout(records, tmp_path, logic)
    assert folders[-1] == tmp_path / "json_2.1.1" / "generated" / mini_record.id
    assert [import_trial(folder) for folder in folders] == records


def test_rebuilt_games_have_the_rules_and_wording_of_the_official_files(
    layout: Path, logic: Logic, tmp_path: Path
) -> None:
    for split, imported in import_layout(layout).items():
        for record, folder in zip(imported.records, write_layout(imported.records, tmp_path, logic), strict=True):
            rebuilt, original = content(folder, GAME), content(layout / "json_2.1.1" / split / record.id, GAME)
            assert rebuilt["pddl_domain"] == original["pddl_domain"]
            assert rebuilt["grammar"] == original["grammar"]
            assert sorted(rebuilt) == sorted(original)
            ours, theirs = content(folder, TRAJ), content(layout / "json_2.1.1" / split / record.id, TRAJ)
            for annotation in theirs["turk_annotations"]["anns"]:
                annotation["task_desc"] = annotation["task_desc"].strip()
            assert ours == theirs


def test_every_entity_is_declared_once(layout: Path) -> None:
    for imported in import_layout(layout).values():
        for record in imported.records:
            text = problem(record)
            declared = re.findall(r"^ +(\S+) - (\S+)$", text[: text.index("(:init")], re.MULTILINE)
            mentioned = {term for rows in record.facts.values() for row in rows for term in row}
            assert sorted(name for name, _ in declared) == sorted(mentioned | set(record.goal[1:]))
            assert ("agent1", "agent") in declared
            kinds = dict(declared)
            assert {kinds[r] for r, _ in record.facts["receptacletype"]} == {"receptacle"}
            assert {kinds[o] for o, _ in record.facts["objecttype"]} == {"object"}


def test_the_walkthrough_wins(logic: Logic, tmp_path: Path, mini_record: Record) -> None:
    (folder,) = write_layout([mini_record], tmp_path, logic)
    game = content(folder, GAME)
    engine = Engine(compile_game(mini_record))
    for command in game["walkthrough"]:
        assert not engine.won
        engine.step(command)
        assert engine.accepted
    assert engine.won
    assert game["solvable"] is True


def test_a_game_that_the_oracle_cannot_solve_has_no_walkthrough(
    logic: Logic, mini_json: dict[str, Any], tmp_path: Path
) -> None:
    mini_json["facts"]["cleanable"] = [["spoon_bar_1"]]
    (folder,) = write_layout([Record.from_json(mini_json, "x")], tmp_path, logic)
    assert content(folder, GAME)["walkthrough"] is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda game: game.update(grammar=game["grammar"] + "#"), "unknown logic"),
        (lambda game: game.update(pddl_domain="(define (domain alfred))"), "unknown logic"),
        (lambda game: game.pop("grammar"), "no domain and grammar"),
        (lambda game: game.update(grammar='x "Your task is: y."'), "no task sentence"),
    ],
)
def test_only_known_logic_is_taken(
    layout: Path, tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    game = json.loads(sorted(layout.glob(f"*/*/*/*/{GAME}"))[0].read_text())
    change(game)
    (tmp_path / GAME).write_text(json.dumps(game))
    with pytest.raises(DataError, match=message):
        game_file_logic(tmp_path / GAME)


def test_without_alfworld_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(convert, "distribution", missing)
    with pytest.raises(DataError, match=r"pip install .*or name a game file"):
        installed_logic()


@pytest.mark.parametrize(
    "change",
    [
        {"id": "../trial"},
        {"id": "task/.."},
        {"split": "generated/../../outside"},
        {"id": "task-movable/trial"},
        {"id": "task-AppleSliced/trial"},
    ],
)
def test_no_folder_lies_outside_or_is_passed_over(
    logic: Logic, mini_record: Record, tmp_path: Path, change: dict[str, str]
) -> None:
    with pytest.raises(DataError, match="cannot be the folder of a game"):
        write_layout([replace(mini_record, **change)], tmp_path / "root", logic)  # type: ignore[arg-type]
    assert not (tmp_path / "root").exists()


def test_a_root_that_hides_the_games_is_refused(logic: Logic, mini_record: Record, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'movable'"):
        write_layout([mini_record], tmp_path / "removable", logic)
