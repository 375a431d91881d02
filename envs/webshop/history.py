"""Observations that repeat the last observations and actions, as the original writes them."""

from __future__ import annotations

from .nodes import SEPARATOR


class History:
    """What was seen and done last.

    Args:
        observations: how many past observations to repeat.
        actions: how many past actions to repeat.

    Attributes:
        seen: the observations that may be repeated, oldest first.
        done: the actions that may be repeated, oldest first.
    """

    def __init__(self, observations: int, actions: int) -> None:
        self._observations = observations
        self._actions = actions
        self.seen: list[str] = []
        self.done: list[str] = []

    def start(self, observation: str) -> str:
        """Forgets everything; the first observation is shown as it is."""
        self.seen, self.done = [observation], []
        return observation

    def add(self, action: str, observation: str) -> str:
        """The observation after an action, with what is repeated in front of it, oldest first."""
        if not (self._observations or self._actions):
            return observation
        self.done.append(action)
        pieces = [observation]
        for back in range(1, 1 + max(self._observations, self._actions)):
            if back <= self._actions and back <= len(self.done):
                pieces.append(self.done[-back])
            if back <= self._observations and back <= len(self.seen):
                pieces.append(self.seen[-back])
        self.seen = [*self.seen, observation][-max(self._observations, 1) :]
        self.done = self.done[-max(self._actions, 1) :]
        return SEPARATOR.join(reversed(pieces))
