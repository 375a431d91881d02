"""What ``run.json`` says, for those who read a run after it was played: comparison and replay.

Invariant: reading a run directory changes nothing in it, and works while another process still plays there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from .errors import DataError
from .runs import IDENTITY, leaves


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class PanelIdentity(_Read):
    """The panel of a run.

    Attributes:
        hash: see `agentgym.task.Panel`.
        tasks: number of tasks.
    """

    hash: str
    tasks: int


class EvalIdentity(_Read):
    """The ``run.json`` of an evaluation; see `agentgym.evaluate`.

    Attributes:
        environment: environment name.
        split: split name.
        panel: the panel.
        agent: the agent's name.
        repeats: episodes of each task.
        max_steps: step limit; None for the environment's own.
        env_options: what else the environment was made with.
        seed: root of the seed tree.
        settings: the agent's settings.
        versions: versions of what was run.
    """

    command: Literal["eval"]
    environment: str
    split: str
    panel: PanelIdentity
    agent: str
    repeats: int
    max_steps: int | None
    env_options: dict[str, Any] = {}
    seed: int
    settings: dict[str, str] = {}
    versions: dict[str, str]

    @property
    def data(self) -> str | None:
        """The data folder is not recorded: it may lie elsewhere on the next machine."""
        return None

    @property
    def options(self) -> Mapping[str, Any]:
        """What the environment was made with."""
        return self.env_options if self.max_steps is None else {**self.env_options, "max_steps": self.max_steps}


class _Table(BaseModel):
    """A table of a recipe; what is not read here by name is kept."""

    model_config = ConfigDict(frozen=True, extra="allow")


class _TrainEnv(_Table):
    name: str
    split: str
    eval_split: str
    data: str
    max_steps: int
    options: dict[str, Any] = {}


class _Policy(_Table):
    model: str


class _Credit(_Table):
    method: str


class _Eval(_Table):
    limit: int | None
    repeats: int


class _Run(_Table):
    seed: int


class _Recipe(_Table):
    env: _TrainEnv
    policy: _Policy
    credit: _Credit
    eval: _Eval
    run: _Run


class TrainIdentity(_Read):
    """The ``run.json`` of a training run.

    Attributes:
        recipe: the recipe.
        eval_panel: the whole split that it is evaluated on.
    """

    command: Literal["train"]
    recipe: _Recipe
    eval_panel: PanelIdentity

    @property
    def evaluation(self) -> EvalIdentity:
        """Its evaluations, as a run of their own would name them; a limited panel keeps the hash of the split."""
        env, own = self.recipe.env, self.recipe.eval
        # What the evaluation says in fields of its own, or what it does not depend on.
        elsewhere: dict[str, Any] = {
            "env": {*_TrainEnv.model_fields} - {"split"},
            "eval": {"every", "limit", "repeats"},
            "run": True,
        }
        return EvalIdentity(
            command="eval",
            environment=env.name,
            split=env.eval_split,
            panel=PanelIdentity(
                hash=self.eval_panel.hash, tasks=min(self.eval_panel.tasks, own.limit or self.eval_panel.tasks)
            ),
            agent=f"{self.recipe.credit.method}, {self.recipe.policy.model}",
            repeats=own.repeats,
            max_steps=env.max_steps,
            env_options=env.options,
            seed=self.recipe.run.seed,
            settings={key: str(value) for key, value in leaves(self.recipe.model_dump(exclude=elsewhere))},
            versions={},
        )

    @property
    def data(self) -> str | None:
        """The data folder of the recipe; None for the built-in data."""
        return self.recipe.env.data or None

    @property
    def options(self) -> Mapping[str, Any]:
        """What the environments were made with."""
        env = self.recipe.env
        return {**env.options, "max_steps": env.max_steps}


_Identity = Annotated[EvalIdentity | TrainIdentity, Field(discriminator="command")]
_ADAPTER: TypeAdapter[EvalIdentity | TrainIdentity] = TypeAdapter(_Identity)


def read_identity(run: Path) -> EvalIdentity | TrainIdentity:
    """Reads the ``run.json`` of a run directory.

    Raises:
        DataError: if it is missing, corrupt or of another kind of run.
    """
    file = run / IDENTITY
    if not file.is_file():
        raise DataError(
            f"{run} is no run directory (no {IDENTITY}); name one made by `agentgym eval` or `agentgym train`"
        )
    try:
        return _ADAPTER.validate_python(json.loads(file.read_bytes()))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise DataError(
            f"{file}: {where}: {first['msg']}; name a run of `agentgym eval` or `agentgym train`"
        ) from error
    except ValueError as error:
        raise DataError(f"{file} is corrupt ({error}); restore it") from error
