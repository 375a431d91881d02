from __future__ import annotations

import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentgym.envs.webshop.catalogue import Catalogue
from agentgym.envs.webshop.goals import GoalKind
from agentgym.envs.webshop.loader import load_catalogue, open_shop
from agentgym.envs.webshop.shop import Shop


def read_lines(path: Path) -> list[Any]:
    """Records of a file with one JSON object a line."""
    data = path.read_bytes()
    return [json.loads(line) for line in (lzma.decompress(data) if path.suffix == ".xz" else data).splitlines()]


@pytest.fixture(scope="session")
def golden(shared_data: Path) -> Callable[[str], list[Any]]:
    """Reads a golden file by name."""
    return lambda name: read_lines(shared_data / "webshop" / "golden" / name)


@pytest.fixture(scope="session")
def small(shared_data: Path) -> Catalogue:
    """The catalogue with 1,000 products."""
    return load_catalogue("small", shared_data)


@pytest.fixture(scope="session")
def shop_of(small: Catalogue) -> Callable[..., Shop]:
    """Makes a shop of the small catalogue."""

    def make(kind: GoalKind = "synthetic", price_seed: int = 7) -> Shop:
        return open_shop(small, kind, price_seed)

    return make
