"""The shop as `agentgym eval` plays it."""

from __future__ import annotations

from pathlib import Path

import agentgym
from agentgym.evaluate import evaluate


def test_expert_and_random_on_the_built_in_catalogue(tmp_path: Path) -> None:
    expert = evaluate("webshop", "expert", limit=30, out=tmp_path / "expert")
    assert (expert.split, expert.broken) == ("generated_test", 0)
    episodes = list(agentgym.load_episodes(tmp_path / "expert"))
    assert len(episodes) == 30
    assert {(one.success, one.score) for one in episodes} == {(True, 1.0)}
    evaluate("webshop", "random", limit=10, max_steps=20, out=tmp_path / "random")
    lines = (tmp_path / "random" / "episodes.jsonl").read_bytes()
    evaluate("webshop", "random", limit=10, max_steps=20, concurrency=1, out=tmp_path / "again")
    scores = [[one.score for one in agentgym.load_episodes(tmp_path / name)] for name in ("random", "again")]
    assert scores[0] == scores[1] and all(score is not None and 0 <= score < 1 for score in scores[0])
    evaluate("webshop", "random", limit=10, max_steps=20, out=tmp_path / "random")
    assert (tmp_path / "random" / "episodes.jsonl").read_bytes() == lines
