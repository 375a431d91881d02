from __future__ import annotations

from pathlib import Path

import pytest
import tiny_policy
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from agentgym.agents.engines.card import PlaySettings, read_settings, write_card
from agentgym.errors import ConfigError, DataError, TemplateError, UnknownNameError
from agentgym.trainers import commands
from agentgym.trainers.preflight import check_policy

REWRITING = (
    "{% for message in messages %}<|{{ message['role'] }}|>"
    "{{ message['content'] if message['role'] == 'user' or loop.last else 'old' }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""Shortens what the assistant said once more messages follow."""

RECIPE = """
env = {{name = "guess", split = "hard", eval_split = "easy"}}
policy = {{model = "{model}"}}
credit = {{method = "grpo"}}
run = {{iterations = 1}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("policy") / "tiny"
    tiny_policy.policy().save(path)
    return path


def test_a_good_policy_passes(folder: Path) -> None:
    check_policy(folder, read_settings(folder, {}))
    with pytest.raises(UnknownNameError, match="did you mean 'plain'"):
        check_policy(folder, read_settings(folder, {"prompts": "plan"}))


def test_a_tokenizer_that_cannot_write_actions_is_refused(folder: Path, tmp_path: Path) -> None:
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "[END]": 1, "look": 2}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]", eos_token="[END]").save_pretrained(tmp_path)
    with pytest.raises(DataError, match=r"cannot write actions: <action>look</action> becomes .*choose a model"):
        check_policy(tmp_path, PlaySettings())
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE.format(model=tmp_path))
    with pytest.raises(DataError, match="cannot write actions"):
        commands.train(recipe, tmp_path / "out", ())
    assert not (tmp_path / "out").exists()


def test_a_template_that_rewrites_messages_is_refused_in_append_style(tmp_path: Path) -> None:
    policy = tiny_policy.policy()
    policy.engine.tokenizer.chat_template = REWRITING
    policy.save(tmp_path / "policy")
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE.format(model=tmp_path / "policy"))
    with pytest.raises(TemplateError, match=r"rewrites message 1 \(assistant\).*use style=windowed"):
        commands.train(recipe, tmp_path / "out", ())
    assert not (tmp_path / "out").exists()
    check_policy(tmp_path / "policy", read_settings(tmp_path / "policy", {"style": "windowed"}))


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("top_p", 0.9, r"set policy\.settings\.top_p = 1$"),
        ("temperature", 0, r"eval\.temperature = 0 evaluates greedily"),
    ],
)
def test_sampling_that_is_not_scored_is_refused(
    folder: Path, tmp_path: Path, setting: str, value: float, says: str
) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE.format(model=folder))
    with pytest.raises(ConfigError, match=says):
        commands.train(recipe, tmp_path / "out", [f"policy.settings.{setting}={value}"])
    # The checkpoint's card says it: the recipe overrides the card.
    tiny_policy.policy().save(tmp_path / "policy")
    write_card(tmp_path / "policy", read_settings(folder, {setting: value}))
    recipe.write_text(RECIPE.format(model=tmp_path / "policy"))
    with pytest.raises(ConfigError, match=says):
        commands.train(recipe, tmp_path / "out", ())
    assert not (tmp_path / "out").exists()
    check_policy(tmp_path / "policy", read_settings(tmp_path / "policy", {setting: 1.0}))
