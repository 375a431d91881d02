"""The shop as a website for people, over the same page machine as the text engine.

Invariant: importing this needs no Flask; opening the site without it says how to install it.
"""

from __future__ import annotations

from pathlib import Path
from wsgiref.types import WSGIApplication

from agentgym.envs.webshop.splits import load
from agentgym.errors import ConfigError
from agentgym.site import Site


class WebShopSite(Site):
    """The shop for browsers; see `agentgym.site.Site`."""

    def app(self, split: str, data: Path | None, *, show_attrs: bool) -> WSGIApplication:
        """The shop for the goals of a split."""
        try:
            from .app import create_app
        except ModuleNotFoundError as error:
            raise ConfigError(f"{error.name} is not installed; pip install 'agentgym-harness[webshop]'") from error
        return create_app(load(split, data), show_attrs=show_attrs)
