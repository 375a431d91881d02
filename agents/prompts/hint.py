"""A hint: text that a teacher reads and the policy does not, such as a successful attempt by someone else.

Invariant: a hint is never cut by a length limit. It has forms of its own, ever shorter, and the fullest that fits is
used as a whole, or none.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from .chat import ChatEncoder

HintPlace = Literal["before_format", "user_start", "user_end", "system", "before_prompt", "after_header"]
"""Where a hint stands: ``before_format`` in the user's message, right before the request to answer (a prompt set's own
place for it); at the ``user_start`` or ``user_end`` of that message; as a ``system`` message; as bare text
``before_prompt``, ahead of all that the chat template writes; or ``after_header``, behind the header of the assistant's
message, right before what is sampled. A growing conversation holds it once, in its first prompt."""


@dataclass(frozen=True)
class Hint:
    """A hint that has not been fitted to a model yet.

    Attributes:
        forms: the text, from its fullest to its shortest form.
        place: where it stands.
        max_tokens: most tokens of the text; None leaves only the model's context as a limit.
    """

    forms: tuple[str, ...]
    place: HintPlace = "before_format"
    max_tokens: int | None = None

    def fullest(self, encoder: ChatEncoder, fits: Callable[[str], bool] = lambda form: True) -> int | None:
        """The number of the fullest form that fits, 0 being the first; None if none does.

        Args:
            encoder: counts the tokens of a form.
            fits: what else a form has to pass. As forms get shorter, a form after one that passes must pass, too: not
                all of them are tried.
        """

        def passes(form: str) -> bool:
            return (self.max_tokens is None or len(encoder.encode(form)) <= self.max_tokens) and fits(form)

        if self.forms and passes(self.forms[0]):
            return 0
        number = bisect_left(self.forms, True, lo=min(1, len(self.forms)), key=passes)
        return number if number < len(self.forms) else None
