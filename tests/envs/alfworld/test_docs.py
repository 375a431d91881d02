"""What docs/alfworld.md says about names and code is so."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

from agentgym.envs.alfworld.diagnostics import Reason
from agentgym.envs.alfworld.env import AlfworldEnv

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "alfworld.md").read_text(encoding="utf-8")
FIRST, GENERATOR = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)[:2]


def test_the_examples_run() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST + GENERATOR], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "'reason': " in done.stdout, done.stderr


def test_options_and_reasons_are_those_of_the_code() -> None:
    options = set(inspect.signature(AlfworldEnv).parameters) - {"games"}
    assert set(re.findall(r"^\| `(\w+)` \| [^|]+ \| [^|]+ \|$", TEXT, re.MULTILINE)) >= options
    assert all(f"`{reason}`" in TEXT for reason in get_args(Reason))
