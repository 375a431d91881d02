"""Restricting outputs to a list of commands: a trie over their token ids, walked while sampling and while scoring.

Invariant: sampler and scorer see the same allowed ids at every position, so that log-probabilities and ratios are
those of the restricted distribution, exactly. An output has the one form ``<action>command</action>`` + end mark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentgym.env import CLOSE_TAG, OPEN_TAG
from agentgym.errors import ConfigError

Trie = dict[int, "Trie"]


class ChoiceEncoder:
    """Token ids of commands as outputs, remembered per command.

    Args:
        encode: text to ids, without special marks added.
        end_id: the id that ends an output.
    """

    def __init__(self, encode: Callable[[str], Sequence[int]], end_id: int) -> None:
        self._encode = encode
        self._end_id = end_id
        self._known: dict[str, tuple[int, ...]] = {}

    def ids(self, command: str) -> tuple[int, ...]:
        """Ids of the whole output that carries ``command``."""
        found = self._known.get(command)
        if found is None:
            found = (*self._encode(f"{OPEN_TAG}{command}{CLOSE_TAG}"), self._end_id)
            self._known[command] = found
        return found

    def trie(self, choices: Sequence[str]) -> Trie:
        """The trie of all outputs that carry one of ``choices``; a leaf is an empty trie.

        Raises:
            ConfigError: if there is no choice.
        """
        if not choices:
            raise ConfigError("a restriction needs at least one command to choose from")
        root: Trie = {}
        for command in choices:
            node = root
            for token in self.ids(command):
                node = node.setdefault(token, {})
        return root

    def allowed(self, choices: Sequence[str], output_ids: Sequence[int]) -> list[list[int]]:
        """The ids that were allowed at each position of an output, sorted.

        Raises:
            ConfigError: if the output leaves the trie, so that it cannot have been drawn under this restriction.
        """
        node = self.trie(choices)
        found: list[list[int]] = []
        for position, token in enumerate(output_ids):
            found.append(sorted(node))
            if token not in node:
                raise ConfigError(
                    f"token {token} at position {position} is not allowed by the recorded restriction; "
                    "the episode was made with another tokenizer"
                )
            node = node[token]
        return found
