"""The auditor: what is trained on is what was sampled, checked on every episode of every iteration.

Silent drift between rollout and training is the costliest mistake in this field, so a difference ends the run.
"""

from __future__ import annotations

from agentgym.agents.prompts import PromptBuilder
from agentgym.episode import Episode
from agentgym.errors import DataError
from agentgym.spans import decode_bytes

from .batch import Row


def audit(episode: Episode, rows: list[Row], builder: PromptBuilder, pieces: list[bytes]) -> int:
    """Compares an episode with the rows that will be trained on.

    Args:
        episode: the episode as it was recorded.
        rows: its rows.
        builder: the renderer; rebuilding the prompts must give the recorded ids.
        pieces: the bytes of every id of the vocabulary.

    Returns:
        Number of sampled ids that were compared.

    Raises:
        DataError: naming the turn and what differs.
    """
    trained: dict[int, list[int]] = {index: [] for index in range(len(episode.turns))}
    for row in rows:
        for turn, token in zip(row.turns.tolist(), row.sampled.tolist(), strict=True):
            trained[turn].append(token)
    rebuilt = builder.rebuild(episode)
    count = 0
    for index, turn in enumerate(episode.turns):
        sampled = list(turn.output_ids or ())
        differences = {
            "the trained ids are not the sampled ids": trained[index] != sampled,
            "ids and log-probabilities differ in number": len(turn.output_logprobs or ()) != len(sampled),
            "the recorded text is not the text of the ids": decode_bytes([pieces[i] for i in sampled])
            != turn.output_text,
            "rendering the prompt again gives other ids": tuple(turn.prompt_ids or ()) != rebuilt[index],
        }
        for what, found in differences.items():
            if found:
                raise DataError(f"audit of {episode.task}, member {episode.member}, turn {index}: {what}; report this")
        count += len(sampled)
    return count
