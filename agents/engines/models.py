"""Model strings: ``hf/PATH`` is a local transformers causal LM, ``hf/builtin:NAME`` one that ships with the package."""

from __future__ import annotations

from pathlib import Path

from agentgym.errors import ConfigError, DataError, UnknownNameError

from .base import Engine

BUILTIN = Path(__file__).resolve().parent.parent / "checkpoints"
KINDS = ("hf",)


def resolve_checkpoint(name: str) -> Path:
    """The folder of a checkpoint, given its path or ``builtin:NAME``.

    Raises:
        UnknownNameError: if no such checkpoint ships with the package.
        DataError: if the folder is missing or holds no model.
    """
    if name.startswith("builtin:"):
        wanted = name.removeprefix("builtin:")
        known = [folder.name for folder in BUILTIN.iterdir() if folder.is_dir()] if BUILTIN.is_dir() else []
        if wanted not in known:
            raise UnknownNameError("built-in policy", wanted, known)
        return BUILTIN / wanted
    path = Path(name).expanduser()
    if not (path / "config.json").is_file():
        raise DataError(f"{path}: no model there (config.json is missing); give a folder written by save_pretrained")
    return path


def load_engine(model: str, *, device: str = "auto", max_batch: int = 64) -> Engine:
    """The engine that a model string names.

    Raises:
        ConfigError: if the string has no kind, or what the kind needs is not installed.
        UnknownNameError: if the kind does not exist.
        DataError: if the checkpoint is missing or unreadable.
    """
    kind, slash, name = model.partition("/")
    if not slash or not name:
        raise ConfigError(f"{model!r} is not a model string; write hf/PATH or hf/builtin:NAME")
    if kind not in KINDS:
        raise UnknownNameError("kind of model", kind, KINDS)
    path = resolve_checkpoint(name)
    try:
        from .transformers import TransformersEngine
    except ModuleNotFoundError as error:
        raise ConfigError(f"{error.name} is not installed; pip install 'agentgym-harness[train]'") from error
    return TransformersEngine.from_pretrained(path, name=model, device=device, max_batch=max_batch)
