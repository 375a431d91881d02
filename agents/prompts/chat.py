"""Messages to token ids through a model's own chat template, and the ids that go between two turns.

Invariant: in a growing conversation every context is the previous context, plus the sampled ids as they are, plus the
ids returned by `ChatEncoder.glue`. A template under which that would differ from rendering the whole conversation is
refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypedDict

from agentgym.errors import TemplateError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PLAIN_TEMPLATE = (
    "{% for message in messages %}{{ message['role'].capitalize() }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}Assistant: {% endif %}"
)
"""For models that have no chat template of their own."""


class Message(TypedDict):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class ChatEncoder:
    """A tokenizer with its chat template.

    Args:
        tokenizer: a transformers tokenizer.
        end_id: the id that ends an assistant message; the tokenizer's end-of-sequence id if None.

    Raises:
        TemplateError: if the tokenizer has no end-of-sequence id.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, end_id: int | None = None) -> None:
        self.tokenizer = tokenizer
        found = tokenizer.eos_token_id if end_id is None else end_id
        if not isinstance(found, int):
            raise TemplateError("the tokenizer has no end-of-sequence token; set one in its tokenizer_config.json")
        self.end_id: int = found
        self._end_text = str(tokenizer.convert_ids_to_tokens(found))
        self._template: str | None = None if tokenizer.chat_template else PLAIN_TEMPLATE

    def encode(self, text: str) -> tuple[int, ...]:
        """Ids of a text, without marks added."""
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def render(self, messages: Sequence[Message]) -> str:
        """The prompt text that asks for the next assistant message.

        Raises:
            TemplateError: if the template does not take these messages.
        """
        try:
            return str(
                self.tokenizer.apply_chat_template(
                    [{"role": message["role"], "content": message["content"]} for message in messages],
                    chat_template=self._template,
                    tokenize=False,
                    add_generation_prompt=True,
                )
            )
        except Exception as error:  # templates are programs of the model's author and raise what they like
            roles = ", ".join(message["role"] for message in messages[:3])
            raise TemplateError(f"the chat template refuses messages of the roles {roles}: {error}") from error

    def prompt(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Ids of the prompt that asks for the next assistant message."""
        return self.encode(self.render(messages))

    def glue(self, user: str, *, ended: bool) -> tuple[int, ...]:
        """Ids between an output and the next one: the end of the assistant's message and the user's next message.

        Args:
            user: the next message.
            ended: whether the output already ends with the end mark.

        Raises:
            TemplateError: if the template is not prefix-preserving.
        """
        question: Message = {"role": "user", "content": "a"}
        answer: Message = {"role": "assistant", "content": "b"}
        before = self.render([question]) + "b"
        text = self.render([question, answer, {"role": "user", "content": user}])
        if not text.startswith(before):
            raise TemplateError(
                "the chat template rewrites message 1 (assistant) once more messages follow; use style=windowed"
            )
        text = text[len(before) :]
        return self.encode(text.removeprefix(self._end_text) if ended else text)

    def require_prefix_preserving(self) -> None:
        """Checks that rendering more messages only appends text.

        Raises:
            TemplateError: naming the message at which the renderings part.
        """
        said = "<think>first</think>\n<action>look</action>"
        messages: list[Message] = []
        for number in range(3):
            messages.append({"role": "user", "content": f"question {number}"})
            before = self.render(messages) + said
            messages.append({"role": "assistant", "content": said})
            after = self.render([*messages, {"role": "user", "content": f"question {number + 1}"}])
            if not after.startswith(before):
                same = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(after))
                raise TemplateError(
                    f"the chat template rewrites message {len(messages) - 1} (assistant) once more messages follow "
                    f"(…{before[max(0, same - 20) : same + 20]!r} becomes …{after[max(0, same - 20) : same + 20]!r}); "
                    "use style=windowed"
                )
