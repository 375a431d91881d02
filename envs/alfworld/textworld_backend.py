"""The original ALFWorld behind the contract: alfworld 0.4.2 on textworld 1.7.0, for checks of the compiled engine.

Each environment has a process of its own that plays (see `textworld_worker`), because the packages keep global state.
Invariant: only games are played whose rules and wording are those of the installed package to the letter, since
textworld evaluates expressions in the wording; and the original sees copies, never the files of the user.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import weakref
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, NamedTuple

from agentgym.env import Description, Outcome, TextEnv
from agentgym.errors import ConfigError, DataError, EngineError

from .convert import Logic, installed_logic, write_layout
from .games import LOGIC_VERSION, OFFICIAL, Games, load
from .official import GAME_FILE, LAYOUT_FOLDER, TRAJ_FILE, import_split, read_json
from .record import Record

REQUIRED = {"alfworld": "0.4.2", "textworld": "1.7.0"}

_WORKER = Path(__file__).with_name("textworld_worker.py")
_IMPORT = "`agentgym data import alfworld` makes packs of it, which are played with the installed ones"
_PATIENCE = 10.0  # seconds for a worker to end by itself


class Reply(NamedTuple):
    """What the original says after a reset or a step.

    Attributes:
        observation: its text.
        admissible: its admissible commands, in its order.
        won: whether the goal holds.
        score: its score.
        done: whether it considers the episode over: won, or out of steps.
        seconds: the processor time it took, without the way to and from its process.
    """

    observation: str
    admissible: tuple[str, ...]
    won: bool
    score: float
    done: bool
    seconds: float


class OriginalProcess:
    """A process with the original environment in it; close it, or use it as a context manager.

    Raises:
        ConfigError: the packages are missing, of another version, or cannot run on this Python.
    """

    def __init__(self) -> None:
        check_installed()
        self._folder = Path(tempfile.mkdtemp(prefix="agentgym-alfworld-"))
        self._log = self._folder / "log"
        # When imported, alfworld makes $ALFWORLD_DATA; for each game, Fast Downward copies its library to $TMPDIR.
        environment = os.environ | {"ALFWORLD_DATA": str(self._folder), "TMPDIR": str(self._folder)}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                # -P: the modules beside the worker must not be found as top-level ones.
                [sys.executable, "-P", str(_WORKER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                encoding="utf-8",
                start_new_session=True,  # an interrupt from the keyboard is for us, and we end it
            )
        self.close = weakref.finalize(self, _end, self._process, self._folder)

    def __enter__(self) -> OriginalProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self, folder: str | Path, max_steps: int) -> list[str]:
        """Lets the original collect the games below a folder, with a step limit; returns their files, sorted.

        Raises:
            EngineError: the process failed.
        """
        games = self._ask("open", str(folder), max_steps)["games"]
        if not isinstance(games, list):
            raise EngineError("the process of the original ALFWorld answers nonsense; reset the environment")
        return [str(game) for game in games]

    def start(self, game: str) -> Reply:
        """Starts one of the games that `open` returned.

        Raises:
            EngineError: the process failed.
        """
        return _reply(self._ask("start", game))

    def step(self, command: str) -> Reply:
        """Carries out a command; after the end the original repeats its last reply.

        Raises:
            EngineError: the process failed.
        """
        return _reply(self._ask("step", command))

    def _ask(self, *request: str | int) -> dict[str, object]:
        writer, reader = _pipes(self._process)
        try:
            writer.write(json.dumps(request) + "\n")
            writer.flush()
            line = reader.readline()
        except (BrokenPipeError, ValueError):
            line = ""
        if not line:
            lines = self._log.read_text(encoding="utf-8", errors="replace").split("\n") if self._log.exists() else []
            last = next((text.strip() for text in reversed(lines) if text.strip()), "it left no message")
            raise EngineError(f"the process of the original ALFWorld has ended ({last}); reset the environment")
        reply: dict[str, object] = json.loads(line)
        if "error" in reply:
            raise EngineError(f"the original ALFWorld failed on {request[0]} ({reply['error']}); reset the environment")
        return reply


class TextworldEnv(TextEnv):
    """The original text world, step by step; slow, and otherwise like `AlfworldEnv`.

    It has no state key and no expert; `snapshot` stores the commands, and `restore` plays them again. Packs in an older
    wording are played in that of the installed package, and the panel is that of the newer wording.

    Args:
        split: an official split, or a generated one.
        data: folder with official packs, or with the original layout (`json_2.1.1`, here or in `alfworld`); packs
            come first if both are there.
        max_steps: step limit, which the original gets too.

    Raises:
        ConfigError: the packages are missing, or for a step limit below 1.
        DataError: the split's data is missing or corrupt.
        UnknownNameError: there is no such split.
    """

    def __init__(self, split: str, data: Path | None, *, max_steps: int = 50) -> None:
        check_installed()
        self._layout = _layout(split, data)
        if self._layout is None:
            games = load(split, data)
            records, source = games.records, games.panel.source
        else:
            imported = import_split(self._layout)
            if old := sorted(set(imported.wordings) - {LOGIC_VERSION}):
                raise DataError(f"{self._layout}: holds games in the wording of ALFWorld {old[0]}; {_IMPORT}")
            records, source = imported.records, f"official layout, {self._layout}"
        # In the wording of the installed package, whichever a pack records.
        self._games = Games(split, records, source)
        super().__init__(self._games.panel, max_steps=max_steps)
        self._logic = installed_logic()
        self._process: OriginalProcess | None = None
        self._record: Record | None = None
        self._reply: Reply | None = None

    @property
    def reply(self) -> Reply:
        """What the original said last, with its own verdict on the end of the episode.

        Raises:
            ConfigError: before the first `reset`.
        """
        if self._reply is None:
            raise ConfigError("call reset() first")
        return self._reply

    def close(self) -> None:
        """Ends the process of the original; a later `reset` starts another."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def _begin(self, index: int, seed: int) -> str:
        record = self._games.records[index]
        with tempfile.TemporaryDirectory(prefix="agentgym-alfworld-") as root:
            if self._layout is None:
                folder = write_layout([record], root, self._logic)[0]
            else:
                folder = _copy(self._layout / record.id, Path(root), record, self._logic)
            try:
                if self._process is None:
                    self._process = OriginalProcess()
                games = self._process.open(folder, self.max_steps)
                if len(games) != 1:
                    raise DataError(f"{record.id}: the original does not take this game from {folder}; set TMPDIR anew")
                self._reply = self._process.start(games[0])
            except EngineError:
                self.close()
                raise
        self._record = record
        return self._reply.observation

    def _play(self, action: str) -> Outcome:
        before = self.reply.admissible
        if self._process is None:
            raise EngineError("the process of the original ALFWorld was closed; call reset()")
        try:
            reply = self._reply = self._process.step(action)
        except EngineError:
            self.close()
            raise
        return Outcome(reply.observation, reply.score, reply.won, action.strip() in before, {"won": reply.score})

    def _describe(self) -> Description:
        reply = self.reply
        goal = "" if self._record is None else self._record.task
        return Description(goal, reply.won, float(reply.won), reply.admissible)


def check_installed() -> None:
    """Makes sure that the original can be run.

    Raises:
        ConfigError: it cannot; the message has the command that installs what is missing.
    """
    if sys.version_info >= (3, 13):
        raise ConfigError("textworld 1.7.0 needs Python 3.12 or older; run the backend 'textworld' with such a Python")
    for name, wanted in REQUIRED.items():
        try:
            found = version(name)
        except PackageNotFoundError:
            found = "not installed"
        if found != wanted:
            packages = " ".join(f"{package}=={release}" for package, release in REQUIRED.items())
            raise ConfigError(f"the backend 'textworld' needs {name} {wanted} ({found}); run: pip install {packages}")


def _layout(split: str, data: Path | None) -> Path | None:
    """The split's folder in the original layout, if its games have to come from there."""
    if data is None or split not in OFFICIAL or (data / "alfworld" / f"{split}.jsonl.xz").is_file():
        return None
    folders = (data / LAYOUT_FOLDER / split, data / "alfworld" / LAYOUT_FOLDER / split)
    return next((folder for folder in folders if folder.is_dir()), None)


def _copy(source: Path, root: Path, record: Record, logic: Logic) -> Path:
    """Copies an original game to a folder that the original may read; its logic must be the installed one."""
    game = read_json(source / GAME_FILE)
    grammar = logic.grammar_of(record.task)
    if (game.get("pddl_domain"), game.get("grammar")) != (logic.domain, grammar):
        raise DataError(
            f"{source / GAME_FILE}: its rules or wording are not those of alfworld {REQUIRED['alfworld']}; {_IMPORT}"
        )
    folder = root / "game"
    folder.mkdir()
    (folder / GAME_FILE).write_text(json.dumps(game), encoding="utf-8")
    shutil.copyfile(source / TRAJ_FILE, folder / TRAJ_FILE)
    return folder


def _reply(answer: dict[str, object]) -> Reply:
    observation, admissible, won, score, done, seconds = (answer.get(key) for key in Reply._fields)
    if not (
        isinstance(observation, str)
        and isinstance(admissible, list)
        and isinstance(won, bool)
        and isinstance(score, int | float)
        and isinstance(done, bool)
        and isinstance(seconds, float)
    ):
        raise EngineError("the process of the original ALFWorld answers nonsense; reset the environment")
    return Reply(observation, tuple(str(command) for command in admissible), won, float(score), done, seconds)


def _pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    if process.stdin is None or process.stdout is None:
        raise EngineError("the process of the original ALFWorld has no pipes; reset the environment")
    return process.stdin, process.stdout


def _end(process: subprocess.Popen[str], folder: Path) -> None:
    """Ends a worker, by itself if it does so in time, and removes its folder."""
    writer, reader = _pipes(process)
    with suppress(BrokenPipeError):
        writer.close()  # the end of its input
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    reader.close()
    shutil.rmtree(folder, ignore_errors=True)
