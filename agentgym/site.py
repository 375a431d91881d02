"""What an environment gives that people can visit with a browser."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from wsgiref.types import WSGIApplication

from .errors import ConfigError
from .registry import load_object, spec


class Site(ABC):
    """A website of an environment. `EnvSpec.site` names a class derived from it."""

    @abstractmethod
    def app(self, split: str, data: Path | None, *, show_attrs: bool) -> WSGIApplication:
        """The site for the tasks of a split.

        Args:
            split: the split.
            data: the data folder; None for none.
            show_attrs: pages of products lead to a page with attributes.

        Raises:
            ConfigError: if a package that it needs is not installed.
            UnknownNameError: if there is no such split.
            DataError: if its data is missing or damaged.
        """


def site_of(env: str) -> Site:
    """The site of an environment.

    Raises:
        UnknownNameError: if there is no such environment.
        ConfigError: if it has no site, or names something else as its site.
    """
    name = spec(env).site
    if name is None:
        raise ConfigError(f"environment {env!r} has no site; `agentgym play {env}` plays it in the terminal")
    found = load_object(name)
    if not (isinstance(found, type) and issubclass(found, Site)):
        raise ConfigError(f"site {name!r} of {env!r} is not a class derived from agentgym.site.Site")
    return found()
