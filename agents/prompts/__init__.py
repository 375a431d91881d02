"""Prompts: how a story of observations and actions becomes the token ids that a model reads."""

from __future__ import annotations

from .builder import PromptBuilder
from .chat import ChatEncoder, Message
from .hint import Hint, HintPlace
from .peer import PEER_TOKENS, PeerContent, render_peer
from .sets import PROMPT_SETS, PromptSet, prompt_set
from .story import Step, Story, stories
from .texts import Texts

__all__ = [
    "PEER_TOKENS",
    "PROMPT_SETS",
    "ChatEncoder",
    "Hint",
    "HintPlace",
    "Message",
    "PeerContent",
    "PromptBuilder",
    "PromptSet",
    "Step",
    "Story",
    "Texts",
    "prompt_set",
    "render_peer",
    "stories",
]
