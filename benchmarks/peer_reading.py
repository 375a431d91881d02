"""Whether a policy can read a peer: its success with and without a successful peer's episode in the context.

A teacher that is the policy itself, shown a peer, can only say something if the two differ.

    python benchmarks/peer_reading.py --model builtin:alfworld-small
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import replace

import agentgym
from agentgym.agents.engines.player import EngineAgent
from agentgym.agents.prompts import PromptBuilder, Story, render_peer
from agentgym.agents.scripted import PlayerAgent
from agentgym.episode import Episode
from agentgym.rollout import Job, play
from agentgym.seeding import Seed
from agentgym.stats import clustered
from agentgym.trainers.demonstrations import demonstrator
from agentgym.trainers.policy import Policy


class Hinted(PromptBuilder):
    """A prompt builder that puts one hint into every story."""

    hint = ""

    def build(self, story: Story) -> tuple[int, ...]:
        """Ids of the prompt, with the hint."""
        return super().build(replace(story, hint=self.hint))


def main() -> None:
    """Prints both success rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="builtin:alfworld-small")
    parser.add_argument("--env", default="alfworld")
    parser.add_argument("--split", default="generated_valid")
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    policy = Policy.load(options.model)
    teacher = demonstrator(options.env)
    tasks = range(len(agentgym.panel(options.env, options.split)))
    seats = asyncio.Semaphore(max(1, 64 // options.repeats))  # as many episodes at once as the engine keeps in memory

    async def peer_of(task: int) -> Episode:
        agent = PlayerAgent("peer", lambda opening: teacher(opening.seed, wander=True))
        return await play(agentgym.make(options.env, options.split), agent, Job(task, 0, Seed(("peer", task))))

    async def attempts(task: int, hint: str) -> list[float]:
        agent = EngineAgent(policy.engine, policy.settings)
        builder = Hinted(policy.engine.encoder, policy.settings.prompts, policy.settings.style)
        object.__setattr__(builder, "hint", hint)
        agent.builder = builder
        jobs = [Job(task, member, Seed(("attempt", task))) for member in range(options.repeats)]
        async with seats:
            played = [play(agentgym.make(options.env, options.split), agent, job) for job in jobs]
            return [float(bool(episode.success)) for episode in await asyncio.gather(*played)]

    async def rate(hints: Sequence[str | None]) -> list[list[float]]:
        return list(await asyncio.gather(*(attempts(t, h) for t, h in zip(tasks, hints, strict=True) if h is not None)))

    async def measure() -> None:
        peers = await asyncio.gather(*(peer_of(task) for task in tasks))
        hints = [render_peer(peer)[0] if peer.success else None for peer in peers]
        for name, shown in (("without a peer", [None if h is None else "" for h in hints]), ("with a peer", hints)):
            policy.engine.forget()
            outcomes = await rate(shown)
            flat = [value for values in outcomes for value in values]
            low, high = clustered(outcomes)
            print(f"{name}: {sum(flat) / len(flat):.3f} [{low:.3f}, {high:.3f}], {len(flat)} episodes")

    asyncio.run(measure())


if __name__ == "__main__":
    main()
