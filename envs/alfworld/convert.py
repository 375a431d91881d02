"""Writing games for the original ALFWorld: packed record -> `game.tw-pddl` and `traj_data.json`.

Rules and wording are not part of this project: they are read from an installed alfworld or from any game file of the
same logic, and used only if their hashes are known. Invariant: importing what is written here gives the same record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, NamedTuple

from agentgym.errors import ConfigError, DataError

from . import tables
from .engine import Engine
from .game import compile_game
from .official import GAME_FILE, LAYOUT_FOLDER, TRAJ_FILE, logic_version, read_json, sentence_span
from .oracle import plan
from .record import PREDICATES, Record

_PLACEHOLDER = "UNKNOWN GOAL"
_FOLDER_NAME = re.compile(r"(?!\.)[\w.+,-]+")
# Words in a path that make the loader of ALFWorld pass over a game.
_PASSED_OVER = ("movable", "Sliced")
_ATTRIBUTE_OF_GOAL = {"isclean": "cleanable", "ishot": "heatable", "iscool": "coolable"}


class Logic(NamedTuple):
    """Rules (PDDL domain) and wording (grammar, with `UNKNOWN GOAL` for the sentence), common to all games."""

    domain: str
    grammar: str

    def grammar_of(self, sentence: str) -> str:
        """The grammar of a game with that task sentence."""
        return self.grammar.replace(_PLACEHOLDER, sentence)


def installed_logic() -> Logic:
    """The logic of the installed alfworld 0.4.2; its files are read, the package is not imported.

    Raises:
        DataError: alfworld is not installed, or holds another logic.
    """
    try:
        package = distribution("alfworld")
        domain, grammar = (
            Path(str(package.locate_file(f"alfworld/data/{name}"))).read_text(encoding="utf-8")
            for name in ("alfred.pddl", "alfred.twl2")
        )
    except (PackageNotFoundError, OSError) as error:
        raise DataError(
            "the rules of ALFWorld are not here; pip install 'agentgym-harness[alfworld]', or name a game file "
            "(game.tw-pddl) to take them from"
        ) from error
    return _checked(domain, grammar, f"alfworld {package.version}")


def game_file_logic(path: str | Path) -> Logic:
    """The logic in a game file of ALFWorld 0.4.2.

    Raises:
        DataError: the file cannot be read, or holds another logic.
    """
    game = read_json(Path(path))
    domain, grammar = game.get("pddl_domain"), game.get("grammar")
    if not isinstance(domain, str) or not isinstance(grammar, str):
        raise DataError(f"{path}: holds no domain and grammar; name a game.tw-pddl of ALFWorld 0.4.2")
    return _checked(domain, grammar, str(path))


def write_layout(records: Iterable[Record], root: str | Path, logic: Logic) -> list[Path]:
    """Write games in the folder layout of ALFWorld, which the original package plays.

    The folder of a game is `<root>/json_2.1.1/<split>/<id>`. Files that are there already are overwritten.

    Args:
        records: games, official or generated.
        root: the folder to write to; it is made if it does not exist.
        logic: rules and wording; see `installed_logic` and `game_file_logic`.

    Returns:
        The folders of the games, in the order of the records.

    Raises:
        ConfigError: the original would pass over games below `root` because of its name.
        DataError: an id or a split is no name for a folder, or the original would pass over it.
    """
    base = Path(root).absolute() / LAYOUT_FOLDER
    if word := next((word for word in _PASSED_OVER if word in str(base)), None):
        raise ConfigError(f"{base}: the original ALFWorld skips folders with {word!r} in their path; choose another")
    folders: list[Path] = []
    for record in records:
        names = (record.split, *record.id.split("/"))
        if any(not _FOLDER_NAME.fullmatch(name) or any(word in name for word in _PASSED_OVER) for name in names):
            raise DataError(f"{'/'.join(names)}: cannot be the folder of a game; give the record another id or split")
        folder = base.joinpath(*names)
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in ((GAME_FILE, game_file(record, logic)), (TRAJ_FILE, traj_data(record))):
            (folder / name).write_text(json.dumps(content), encoding="utf-8")
        folders.append(folder)
    return folders


def game_file(record: Record, logic: Logic) -> dict[str, Any]:
    """The content of the `game.tw-pddl` of a record, with the oracle's plan as its walkthrough."""
    walkthrough = plan(Engine(compile_game(record)))
    return {
        "pddl_domain": logic.domain,
        "grammar": logic.grammar_of(record.task),
        "pddl_problem": problem(record),
        "solvable": True,
        "walkthrough": None if walkthrough is None else list(walkthrough),
    }


def traj_data(record: Record) -> dict[str, Any]:
    """The part of `traj_data.json` that belongs to the text game."""
    return {
        "task_type": record.type,
        "task_id": record.id.split("/")[1],
        "scene": {"floor_plan": record.scene},
        "pddl_params": dict(record.params),
        "turk_annotations": {"anns": [{"task_desc": sentence} for sentence in record.human]},
    }


def problem(record: Record) -> str:
    """The PDDL problem of a record, all in lower case."""
    kinds: dict[str, str] = {}
    for predicate, rows in record.facts.items():
        for row in rows:
            kinds.update(zip(row, PREDICATES[predicate], strict=True))
    _, object_type, target_type = record.goal
    kinds.setdefault(object_type, "otype")
    kinds.setdefault(target_type, "otype" if record.family == "look" else "rtype")
    facts = [(predicate, *row) for predicate, rows in record.facts.items() for row in rows]
    accepted = {row[1] for row in record.facts.get("objecttype", ())}
    facts += [
        ("cancontain", receptacle_type, kind)
        for receptacle_type in sorted({row[1] for row in record.facts["receptacletype"]})
        for kind in sorted(tables.CAN_CONTAIN.get(receptacle_type, frozenset()) & accepted)
    ]
    objects = "\n".join(f"    {name} - {kind}" for name, kind in sorted(kinds.items()))
    init = "\n".join(f"    ({' '.join(fact)})" for fact in facts)
    return (
        f"(define (problem game)\n  (:domain alfred)\n  (:objects\n{objects}\n  )\n"
        f"  (:init\n{init}\n  )\n  (:goal {_goal(record)})\n)\n"
    )


def _goal(record: Record) -> str:
    kind, object_type, target_type = record.goal
    if kind == "light":
        return (
            "(and (exists (?t - object ?r - receptacle ?a - agent ?l - location) (and "
            f"(objecttype ?t {target_type}) (toggleable ?t) (istoggled ?t) (receptacleatlocation ?r ?l) "
            "(atlocation ?a ?l) (inreceptacle ?t ?r))) "
            f"(exists (?o - object ?a - agent) (and (objecttype ?o {object_type}) (holds ?a ?o))))"
        )
    there = f"(objecttype ?o {object_type}) (receptacletype ?r {target_type}) (inreceptacle ?o ?r)"
    if kind == "two":
        second = there.replace("?o", "?p")
        there = f"{there} (exists (?p - object) (and (not (= ?o ?p)) {second}))"
    elif kind in _ATTRIBUTE_OF_GOAL:
        there = f"({_ATTRIBUTE_OF_GOAL[kind]} ?o) ({kind} ?o) {there}"
    return f"(and (exists (?r - receptacle) (exists (?o - object) (and {there}))))"


def _checked(domain: str, grammar: str, where: str) -> Logic:
    start, end = sentence_span(grammar, where)
    if (version := logic_version(domain, grammar, where)) != "0.4.2":
        raise DataError(f"{where}: its logic is that of ALFWorld {version}; take it from ALFWorld 0.4.2")
    return Logic(domain, f"{grammar[:start]}{_PLACEHOLDER}{grammar[end:]}")
