"""The shop with the original's own interface, for programs written for it.

It always plays in upstream mode. Sessions are kept by name until `close`: a name seen before keeps its goal.
"""

from __future__ import annotations

import string
from random import Random
from typing import Any, TypedDict

from .env import store_of
from .history import History
from .machine import Visit
from .observe import Mode, observe
from .shop import Shop

_ERRORS: dict[str, type[Exception]] = {
    "IndexError": IndexError,
    "KeyError": KeyError,
    "TypeError": TypeError,
    "ValueError": ValueError,
}


class State(TypedDict):
    """What the original's ``state`` holds."""

    url: str
    html: str
    instruction_text: str


class UpstreamEnv:
    """The original's text environment.

    Args:
        shop: products, prices and goals.
        observation_mode: ``text``, ``text_rich``, ``html`` or ``url``.
        session_prefix: put in front of every session name.
        show_attrs: item pages have a button to a page with the product's attributes.
        num_prev_obs: past observations that `step` repeats.
        num_prev_actions: past actions that `step` repeats.
        strict_errors: raise what the original raises, instead of telling it in ``info``.
    """

    def __init__(
        self,
        shop: Shop,
        observation_mode: Mode = "text",
        *,
        session_prefix: str = "",
        show_attrs: bool = False,
        num_prev_obs: int = 0,
        num_prev_actions: int = 0,
        strict_errors: bool = False,
    ) -> None:
        self._shop = shop
        self._mode: Mode = observation_mode
        self._prefix = session_prefix
        self._store = store_of(shop, False, show_attrs)
        self._history = History(num_prev_obs, num_prev_actions)
        self._strict = strict_errors
        self._random = Random()
        self._random.setstate(shop.stream)
        self._goals: dict[str, int] = {}
        self.reset()

    def reset(self, session: object = None, instruction_text: str | None = None) -> tuple[str, None]:
        """Starts a session.

        Args:
            session: an ``int`` is the index of a goal; anything else names a session, whose goal is drawn; None draws
                the name as well.
            instruction_text: replaces `instruction_text`; pages do not change.

        Returns:
            The first observation, and None.

        Raises:
            IndexError: for an index past the last goal.
        """
        drawn = "".join(self._random.choices(string.ascii_lowercase, k=10)) if session is None else str(session)
        name = self._prefix + drawn
        if name not in self._goals:
            if isinstance(session, int):
                goals = len(self._shop.goals)
                if not -goals <= session < goals:
                    raise IndexError(f"goal {session} of {goals}")
                self._goals[name] = session % goals
            else:
                self._goals[name] = self._shop.draw_goal(self._random)
        self._visit = Visit.start(self._store, name, self._goals[name], lambda: self._random)
        first = f"Instruction: {self._visit.goal.instruction}"
        self.instruction_text = first if instruction_text is None else instruction_text
        return self._history.start(self.observation), None

    def step(self, action: str) -> tuple[str, float, bool, dict[str, Any] | None]:
        """Sends an action.

        Returns:
            Observation with what is repeated, reward, whether this step bought something, and None, or
            ``{"upstream_error": name}`` where the original raises.

        Raises:
            IndexError, KeyError, TypeError, ValueError, RuntimeError: what the original raises, with ``strict_errors``.
        """
        done = self._visit.act(action)
        if done.error:
            if self._strict:
                raise _ERRORS.get(done.error, RuntimeError)(done.error)
            return self.observation, 0.0, False, {"upstream_error": done.error}
        observation = self._history.add(action, self.observation)
        if done.reward is None:
            return observation, 0.0, False, None
        return observation, done.reward.value, True, None

    def get_available_actions(self) -> dict[str, Any]:
        """``has_search_bar`` and ``clickables``, in order of the page."""
        start = self._visit.page.kind == "start"
        return {"has_search_bar": start, "clickables": list(self._visit.controls.names)}

    def get_instruction_text(self) -> str:
        """The instruction as the page shown has it, with its heading."""
        space = " " if self._visit.page.kind == "start" else ""
        return f"Instruction:{space}{self._visit.goal.instruction}"

    @property
    def observation(self) -> str:
        """The page shown, in the chosen mode."""
        return observe(self._visit, self._mode)

    @property
    def state(self) -> State:
        """Address, HTML and instruction."""
        return {
            "url": self._visit.url,
            "html": observe(self._visit, "html"),
            "instruction_text": self.instruction_text,
        }

    @property
    def session(self) -> str:
        """Name of the session."""
        return self._visit.session

    @property
    def goal_index(self) -> int:
        """Index of the session's goal."""
        return self._visit.goal_index

    def close(self) -> None:
        """Forgets all sessions."""
        self._goals.clear()
