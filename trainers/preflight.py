"""What would spoil a training run later is found before the run has a folder."""

from __future__ import annotations

from pathlib import Path

from agentgym.agents.engines.card import PlaySettings
from agentgym.agents.engines.vocabulary import Vocabulary
from agentgym.agents.prompts import PromptBuilder
from agentgym.env import CLOSE_TAG, OPEN_TAG
from agentgym.errors import ConfigError, DataError


def check_policy(folder: Path, play: PlaySettings) -> None:
    """Checks that a policy can be prompted as its settings say, and can write actions.

    Args:
        folder: holds its tokenizer; the weights are not read.
        play: how it is played.

    Raises:
        ConfigError: if the log-probabilities of what it would sample are not those that training reads.
        UnknownNameError: for an unknown prompt set.
        TemplateError: for append style with a chat template that is not prefix-preserving.
        DataError: if the tokenizer cannot be loaded, or cannot write the tags around an action.
    """
    _check_sampling(play)
    vocabulary = Vocabulary.from_folder(folder)
    PromptBuilder(vocabulary.encoder, play.prompts, play.style, play.history)
    wanted = f"{OPEN_TAG}look{CLOSE_TAG}"
    written = vocabulary.sample(vocabulary.encoder.encode(wanted), None, "stop").text
    if not (OPEN_TAG in written and CLOSE_TAG in written):
        raise DataError(
            f"{folder}: its tokenizer cannot write actions: {wanted} becomes {written!r}; choose a model whose "
            f"tokenizer falls back to bytes, or teach it {OPEN_TAG} and {CLOSE_TAG} (agentgym policy sft makes one)"
        )


def _check_sampling(play: PlaySettings) -> None:
    """Refuses what samples from another distribution than the one that is scored; no weight corrects for that."""
    if play.top_p < 1:
        raise ConfigError(
            f"top_p = {play.top_p} cuts unlikely tokens off when the policy samples, and training scores outputs "
            "without that cut; set policy.settings.top_p = 1"
        )
    if play.temperature == 0:
        raise ConfigError(
            "temperature = 0 makes all episodes of a group the same, and training has nothing to compare; set "
            "policy.settings.temperature = 1 (eval.temperature = 0 evaluates greedily)"
        )
