"""An engine and a prompt builder make an agent: the player of evaluation and of training alike."""

from __future__ import annotations

import logging
from dataclasses import replace

from agentgym.agent import Opening, Player, Reply, Traits
from agentgym.agents.prompts import PromptBuilder, Step, Story
from agentgym.env import Info
from agentgym.errors import ConfigError, ContextFullError

from .base import Engine, Request
from .card import PlaySettings
from .choices import ChoiceEncoder

_LOGGER = logging.getLogger(__name__)


class EngineAgent:
    """Plays any environment with a language model.

    Args:
        engine: the model.
        settings: prompts, style and sampling.
        free_settings: settings of the engine that no result depends on.

    Raises:
        UnknownNameError: for an unknown prompt set.
        TemplateError: for append style with a chat template that is not prefix-preserving.
    """

    def __init__(self, engine: Engine, settings: PlaySettings, free_settings: tuple[str, ...] = ()) -> None:
        self.engine = engine
        self.settings = settings
        self.builder = PromptBuilder(engine.encoder, settings.prompts, settings.style, settings.history)
        if not engine.encoder.tokenizer.chat_template:
            _LOGGER.warning(
                "%s has no chat template: messages go as 'User: …' and 'Assistant: …'; if it was trained on another "
                "form, put that as chat_template.jinja beside its tokenizer",
                engine.name,
            )
        self.sampling = settings.sampling
        self.choices = ChoiceEncoder(engine.encoder.encode, engine.encoder.end_id)
        self._free_settings = free_settings
        whole = engine.context_length
        # A model that can hardly hold one output still gets half of its context as a prompt.
        self.room = None if whole is None else max(whole - settings.max_tokens, whole // 2)
        self._started = 0

    @property
    def traits(self) -> Traits:
        """What the records say of this agent."""
        template = {} if self.engine.encoder.tokenizer.chat_template else {"chat template": "none: plain"}
        return self.settings.traits(self.engine.name, {**self.engine.versions, **template}, self._free_settings)

    def start(self, opening: Opening, /) -> EnginePlayer:
        """A player for one episode."""
        self._started += 1
        # Two agents may share an engine, so a session is named after its agent, too.
        return EnginePlayer(self, opening, f"{id(self):x}-{self._started}")

    def finish(self, player: Player, /) -> None:
        """Frees what the engine kept of the player's context."""
        if isinstance(player, EnginePlayer):
            self.engine.release(player.session)


class EnginePlayer:
    """Plays one episode; its context holds exactly the ids that were prompted and sampled."""

    def __init__(self, agent: EngineAgent, opening: Opening, session: str) -> None:
        self.session = session
        self._agent = agent
        self._opening = opening
        self._steps: list[Step] = []
        self._context: tuple[int, ...] = ()
        for turn in opening.turns:
            if turn.prompt_ids is None or turn.output_ids is None:
                raise ConfigError(f"{opening.task.id}: turns without token ids; go on from a language model's")
            self._remember(Step(turn.observation, turn.admissible), turn.action, turn.prompt_ids, turn.output_ids)

    def _remember(self, asked: Step, action: str, prompt: tuple[int, ...], output: tuple[int, ...]) -> None:
        ended = bool(output) and output[-1] == self._agent.engine.encoder.end_id
        self._steps.append(replace(asked, action=action, ended=ended))
        grown = self._context if self._agent.settings.style == "append" else ()
        self._context = (*grown, *prompt, *output)

    async def act(self, observation: str, info: Info, /) -> Reply:
        """Asks the model.

        Raises:
            EngineError: if the engine failed.
            ContextFullError: if a growing conversation has filled the model's context.
            ConfigError: if the first prompt does not fit, or a restriction finds nothing to choose from.
        """
        agent, sampling = self._agent, self._agent.sampling
        choices = sampling.choices(info["admissible_actions"])
        if sampling.restrict and not choices:
            raise ConfigError(f"restrict={sampling.restrict}: the environment lists no admissible actions; drop it")
        asked = Step(observation, info["admissible_actions"])
        prompt, shortened = agent.builder.fit(Story(info["goal"], (*self._steps, asked)), agent.room)
        context = (*self._context, *prompt) if agent.settings.style == "append" else prompt
        whole = agent.engine.context_length
        # What is sampled freely may be cut off at the end of the context, a command may not.
        needed = max((len(agent.choices.ids(command)) for command in choices or ()), default=1)
        if self._steps and whole is not None and len(context) + needed > whole:
            raise ContextFullError(
                f"the conversation has {len(context)} tokens and the model takes {whole}, output included; use "
                "style=windowed to go on"
            )
        seed = self._opening.seed.child("turn", len(self._steps)).value
        (sample,) = await agent.engine.generate([Request(context, sampling, seed, choices, self.session)])
        self._remember(asked, self._opening.parse(sample.text).text, prompt, sample.ids)
        return Reply(
            text=sample.text,
            prompt_ids=prompt,
            output_ids=sample.ids,
            output_logprobs=sample.logprobs,
            pieces=sample.pieces,
            finish_reason=sample.finish_reason,
            shortened=shortened,
        )
