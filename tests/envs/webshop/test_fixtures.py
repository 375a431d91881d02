"""Sessions that people played on the full catalogue, as the original's site recorded them."""

from __future__ import annotations

import json
from pathlib import Path

from agentgym.envs.webshop.options import matches_upstream


def test_options_and_rewards_of_recorded_purchases(shared_data: Path) -> None:
    path = shared_data / "webshop" / "fixtures" / "human_trajectories.jsonl"
    done = [one for one in map(json.loads, path.read_text().splitlines()) if one["page"] == "done"]
    assert len(done) == 9
    for record in done:
        goal, parts = record["goal"], record["reward_info"]
        wanted, attributes = tuple(goal["goal_options"]), goal["attributes"]
        met = matches_upstream(wanted, record["content"]["options"])
        if wanted:
            assert met / len(wanted) == parts["r_option"], record["session"]
        n_attr = round(parts["r_att"] * len(attributes))
        kept = record["content"]["price"] <= goal["price_upper"]
        assert kept == parts["r_price"]
        assert (n_attr + met + kept) / (len(attributes) + len(wanted) + 1) * parts["r_type"] == record["reward"]
