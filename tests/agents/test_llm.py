"""The `llm` agent as a stranger meets it: wrong names, broken folders, and a model that writes nonsense."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
import tiny_policy
from agentgym_guess import SPEC, GuessEnv, panel

from agentgym.agents import make_agent
from agentgym.agents.engines import Engine, Request, Sample
from agentgym.agents.engines.card import CARD, PlaySettings, read_settings, write_card
from agentgym.agents.engines.player import EngineAgent
from agentgym.agents.engines.transformers import TransformersEngine
from agentgym.agents.llm import make_llm_agent
from agentgym.agents.prompts import ChatEncoder
from agentgym.episode import Episode
from agentgym.errors import AgentGymError, ConfigError, DataError, TemplateError, UnknownNameError
from agentgym.evaluate import evaluate
from agentgym.rollout import Job, rollout
from agentgym.seeding import Seed
from agentgym.summary import Summary


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny"
    tiny_policy.policy(restrict="none").save(path)
    return path


# ---- names and folders -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        ({"temprature": "1"}, UnknownNameError, "did you mean 'temperature'"),
        ({"prompts": "plan"}, UnknownNameError, "did you mean 'plain'"),
        ({"style": "apend"}, ConfigError, "style='apend'.*'windowed' or 'append'"),
        ({"temperature": "warm"}, ConfigError, "temperature='warm'"),
        ({"temperature": "-1"}, ConfigError, "temperature"),
        ({"temperature": "inf"}, ConfigError, "temperature"),
        ({"temperature": "nan"}, ConfigError, "temperature"),
        ({"top_p": "0"}, ConfigError, "top_p"),
        ({"max_tokens": "0"}, ConfigError, "max_tokens"),
        ({"history": "-1"}, ConfigError, "history"),
        ({"restrict": "yes"}, ConfigError, "'admissible' or 'none'"),
    ],
)
def test_bad_settings(folder: Path, settings: dict[str, str], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        make_llm_agent(f"hf/{folder}", settings)


@pytest.mark.parametrize(
    ("model", "error", "says"),
    [
        ("", ConfigError, "write hf/PATH"),
        ("hf", ConfigError, "write hf/PATH"),
        ("tiny", ConfigError, "write hf/PATH"),
        ("hg/tiny", UnknownNameError, "kind of model 'hg': did you mean 'hf'"),
        ("hf/nowhere", DataError, "nowhere: no model there"),
        ("hf/builtin:nope", UnknownNameError, "built-in policy 'nope'"),
        ("hf/", AgentGymError, "model"),
    ],
)
def test_bad_models(model: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        make_agent(SPEC, "llm", model=model, settings={})


def cut(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:100])


def write(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text)


def lose_a_layer(folder: Path) -> None:
    config = (folder / "config.json").read_text()
    (folder / "config.json").write_text(config.replace('"num_hidden_layers": 2', '"num_hidden_layers": 3'))


@pytest.mark.parametrize(
    "damage",
    [
        cut("model.safetensors"),
        lambda folder: (folder / "model.safetensors").unlink(),
        lose_a_layer,
        cut("tokenizer.json"),
        lambda folder: (folder / "tokenizer.json").unlink(),
        cut("config.json"),
        write("config.json", "[]"),
        write("config.json", '{"model_type": "nope"}'),
        write(CARD, "{"),
        write(CARD, "[]"),
        write(CARD, '{"temprature": 1}'),
        write(CARD, '{"temperature": -1}'),
    ],
)
def test_a_damaged_folder_is_named(folder: Path, tmp_path: Path, damage: Callable[[Path], object]) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    make_llm_agent(f"hf/{copy}", {})
    damage(copy)
    with pytest.raises(DataError, match=str(copy)) as caught:
        make_llm_agent(f"hf/{copy}", {})
    assert len(str(caught.value).splitlines()) == 1


def test_the_card_decides_and_settings_override_it(tmp_path: Path) -> None:
    write_card(tmp_path, PlaySettings(prompts="compact", temperature=0.5, exclude="help, look"))
    read = read_settings(tmp_path, {"temperature": "0.25", "stop": "a,,b"})
    assert (read.prompts, read.temperature, read.max_tokens) == ("compact", 0.25, 256)
    assert read.sampling.exclude == ("help", "look") and read.sampling.stop == ("a", "b")
    assert read_settings(None, {}) == PlaySettings()


def test_append_style_needs_a_fitting_template(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    (tmp_path / "copy" / "chat_template.jinja").write_text("{{ messages | length }}{{ messages[-1]['content'] }}")
    with pytest.raises(TemplateError, match="style=windowed"):
        make_llm_agent(f"hf/{tmp_path / 'copy'}", {"style": "append"})
    make_llm_agent(f"hf/{tmp_path / 'copy'}", {"style": "windowed"})


# ---- playing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"style": "append"},
        {"style": "windowed", "prompts": "plain", "history": "1"},
        {"style": "append", "restrict": "admissible", "exclude": "help,look"},
        {"style": "windowed", "restrict": "admissible", "temperature": "0"},
    ],
    ids=lambda settings: " ".join(settings.values()),
)
def test_a_fresh_policy_plays_alfworld(folder: Path, tmp_path: Path, settings: dict[str, str]) -> None:
    def run(out: Path, concurrency: int) -> Summary:
        return evaluate(
            "alfworld",
            "llm",
            model=f"hf/{folder}",
            split="generated_valid",
            limit=3,
            max_steps=4,
            seed=5,
            concurrency=concurrency,
            out=out,
            settings={"max_tokens": "16", **settings},
        )

    summary = run(tmp_path / "run", 64)
    assert summary.overall.episodes == 3 and summary.broken == 0
    assert run(tmp_path / "other", 2).overall == summary.overall
    lines = (tmp_path / "run" / "episodes.jsonl").read_text().splitlines()
    for episode in map(Episode.from_json, lines):
        assert len(episode.turns) == 4 and episode.style == settings["style"] and episode.sampling is not None
        for turn in episode.turns:
            assert turn.output_ids and len(turn.output_ids) == len(turn.output_logprobs or ())
            if settings.get("restrict"):
                assert turn.action_accepted and turn.well_formed and turn.action in (turn.admissible or ())
                assert turn.action.split()[0] not in ("help", "look") or "exclude" not in settings


class Parrot(Engine):
    """Says what it was told to, as if a model had sampled it."""

    def __init__(self, model: TransformersEngine, outputs: Sequence[bytes]) -> None:
        self.name = "parrot"
        self.encoder: ChatEncoder = model.encoder
        self.versions: Mapping[str, str] = {}
        self._byte = {model.pieces[token]: token for token in range(len(model.pieces))}
        self._outputs = outputs

    async def generate(self, requests: Sequence[Request]) -> list[Sample]:
        return [self._say(self._outputs[request.seed % len(self._outputs)]) for request in requests]

    def _say(self, output: bytes) -> Sample:
        pieces = tuple(bytes([byte]) for byte in output)
        ids = tuple(self._byte[piece] for piece in pieces)
        text = output.decode("utf-8", errors="replace")
        return Sample(text, ids, (-1.0,) * len(ids), pieces, "stop")

    def release(self, session: str) -> None:
        """Nothing is kept."""


NONSENSE = {
    "nothing": b"",
    "no tags": b"I would rather not.",
    "only opened": b"<action>guess 3",
    "only closed": b"guess 3</action>",
    "empty": b"<action></action>",
    "blank": b"<action> \n </action>",
    "two": b"<action>guess 1</action> or <action>guess 2</action>",
    "nested": b"<action><action>guess 3</action></action>",
    "control characters": b"<action>guess\x00\x1b[2J\x07 3\r\n</action>",
    "broken utf-8": b"\xff\xfe<action>\xc3\x28\xe2\x82</action>\xf0\x9f",
    "marks": b"<|end|><|user|>You win.<action>pass</action>",
    "long": b"x" * 100_000,
    "long action": b"<action>" + b"guess " * 16_000 + b"</action>",
}


@pytest.mark.parametrize("style", ["windowed", "append"])
@pytest.mark.parametrize("output", NONSENSE.values(), ids=NONSENSE.keys())
def test_nonsense_is_counted_and_never_breaks_anything(engine: TransformersEngine, output: bytes, style: str) -> None:
    agent = EngineAgent(Parrot(engine, [output]), PlaySettings(prompts="compact", style=style))  # type: ignore[arg-type]
    found: list[Episode] = []
    rollout(
        [Job(5, 0, Seed((0,)))],
        agent,
        lambda: GuessEnv(panel("easy"), max_steps=3),
        on_episode=lambda job, episode: found.append(episode),
    )
    (episode,) = found
    assert episode.status == "truncated" and episode.success is False and episode.error is None
    sound = output == NONSENSE["marks"]
    for turn in episode.turns:
        assert turn.output_text == output.decode("utf-8", errors="replace")
        assert len(turn.output_ids or ()) == len(output)
        one_pair = output.count(b"<action>") == output.count(b"</action>") == 1
        assert turn.well_formed == (one_pair and bool(turn.action)), (
            "what is well formed has one pair with something in it"
        )
        assert turn.action_accepted == (sound or output in (NONSENSE["two"], NONSENSE["nested"]))
        if turn.action_span is not None:
            start, end = turn.action_span
            assert output[start:end].decode("utf-8", errors="replace") == turn.action
    assert agent.builder.rebuild(episode) == [turn.prompt_ids for turn in episode.turns]
    assert Episode.from_json(episode.to_json()) == episode


def test_a_restriction_needs_a_list_to_choose_from(engine: TransformersEngine) -> None:
    class Silent(GuessEnv):
        def _admissible(self) -> tuple[str, ...]:
            return ()

    agent = EngineAgent(engine, PlaySettings(restrict="admissible"))
    with pytest.raises(ConfigError, match="lists no admissible actions"):
        rollout([Job(0, 0, Seed((0,)))], agent, lambda: Silent(panel("easy")), on_episode=lambda job, episode: None)
