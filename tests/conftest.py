"""Where the tests find official data, which the repository does not hold."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with official data; tests that need it are skipped where it is absent."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("AGENTGYM_TEST_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"official data is not at {folder}; set AGENTGYM_TEST_DATA to its folder")
    return folder


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> Iterator[None]:
    """Children inherit an ignored SIGINT (a shell's background jobs have one) and could not be interrupted."""
    before = signal.getsignal(signal.SIGINT)
    if before == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
