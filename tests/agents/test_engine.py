from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tiny_policy
import torch
from agentgym_guess import GuessEnv, panel
from transformers import AutoModelForCausalLM, GPT2Config, MistralConfig, OPTConfig, Qwen2Config, Qwen2ForCausalLM

import agentgym
from agentgym.agents.engines import Request, Sample
from agentgym.agents.engines.card import PlaySettings
from agentgym.agents.engines.llama import LlamaReader
from agentgym.agents.engines.player import EngineAgent
from agentgym.agents.engines.transformers import TransformersEngine
from agentgym.episode import Episode, Sampling
from agentgym.errors import ConfigError, EngineError
from agentgym.rollout import Job, play, rollout
from agentgym.seeding import Seed
from agentgym.spans import decode_bytes, token_span

FREE = Sampling(max_tokens=12)
COMMANDS = ("go to shelf 1", "go to shelf 10", "go to shelf 11", "open fridge 1", "look")


def prompt(seed: int, length: int, vocabulary: int = 390) -> tuple[int, ...]:
    return tuple(np.random.default_rng(seed).integers(7, vocabulary, size=length).tolist())


def same(one: Sample, other: Sample) -> bool:
    return one.ids == other.ids and one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


def requests() -> list[Request]:
    return [
        Request(prompt(1, 40), FREE, 1),
        Request(prompt(2, 3), FREE, 2, COMMANDS),
        Request(prompt(3, 17), replace_sampling(temperature=0.7), 3),
        Request(prompt(4, 90), replace_sampling(temperature=0.0), 4),
        Request(prompt(5, 1), FREE, 5, ("look",)),
        Request(prompt(6, 25), replace_sampling(top_p=0.5), 6),
    ]


def replace_sampling(**changes: Any) -> Sampling:
    return FREE.model_copy(update=changes)


def test_a_sample_does_not_depend_on_its_batch(engine: TransformersEngine) -> None:
    alone = [engine.sample([request])[0] for request in requests()]
    together = engine.sample(requests())
    backwards = engine.sample(requests()[::-1])[::-1]
    assert all(same(a, b) and same(a, c) for a, b, c in zip(alone, together, backwards, strict=True))
    # The seed matters, and nothing else does.
    other = engine.sample([replace(requests()[0], seed=9)])[0]
    assert other.ids != alone[0].ids and engine.sample([requests()[0]])[0] == alone[0]


def test_log_probabilities_are_those_of_the_model(engine: TransformersEngine) -> None:
    request = replace(requests()[0], sampling=replace_sampling(temperature=0.7))
    sample = engine.sample([request])[0]
    with torch.no_grad():
        logits = engine.model(torch.tensor([[*request.prompt_ids, *sample.ids]])).logits[0]
    expected = torch.log_softmax(logits / 0.7, -1)[len(request.prompt_ids) - 1 : -1]
    wanted = expected.gather(1, torch.tensor(sample.ids)[:, None])[:, 0]
    assert torch.tensor(sample.logprobs) == pytest.approx(wanted, abs=1e-4)


def grow(engine: TransformersEngine, kept: bool) -> list[Sample]:
    """Conversations that take turns at being in the batch, some longer than others."""
    contexts: dict[str, tuple[int, ...]] = {}
    found: list[Sample] = []
    for turn, names in enumerate(["ab", "bc", "abc", "c", "dca", "abcd"]):
        batch = []
        for name in names:
            added = prompt(ord(name) * 10 + turn, 1 + (ord(name) * 7 + turn * 13) % 30)
            contexts[name] = (*contexts.get(name, ()), *added)
            choices = COMMANDS if name == "c" else None
            batch.append(Request(contexts[name], FREE, turn, choices, name if kept else None))
        samples = engine.sample(batch)
        for name, sample in zip(names, samples, strict=True):
            contexts[name] += sample.ids
        found += samples
        if turn == 3:
            engine.release("b")
    return found


@pytest.mark.parametrize("max_batch", [64, 4, 2])
def test_what_is_kept_of_a_session_changes_nothing(engine: TransformersEngine, max_batch: int) -> None:
    own = TransformersEngine(engine.model, engine.tokenizer, name="own", max_batch=max_batch)
    kept, fresh = grow(own, True), grow(engine, False)
    assert all(same(a, b) for a, b in zip(kept, fresh, strict=True))
    # A context that goes another way than the one that was kept under its name is read anew.
    request = Request(prompt(77, 30), FREE, 1, None, "a")
    assert same(own.sample([request])[0], engine.sample([replace(request, session=None)])[0])


def test_a_session_that_is_named_twice_in_a_batch_is_two_contexts(engine: TransformersEngine) -> None:
    twice = [replace(request, session="same") for request in requests()]
    for _ in range(2):
        assert all(same(a, b) for a, b in zip(engine.sample(twice), engine.sample(requests()), strict=True))
    engine.release("same")


def test_after_forgetting_new_weights_count() -> None:
    own = tiny_policy.engine()
    request = Request(prompt(1, 30), FREE, 1, None, "s")
    before = own.sample([request])[0]
    with torch.no_grad():
        for parameter in own.model.parameters():
            parameter.add_(0.05)
    own.forget()
    assert same(own.sample([request])[0], own.sample([replace(request, session=None)])[0])
    assert own.sample([request])[0].logprobs != pytest.approx(before.logprobs, abs=1e-3)


ARCHITECTURES = [
    GPT2Config(n_embd=32, n_layer=2, n_head=2, n_positions=128),
    OPTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        ffn_dim=64,
        word_embed_proj_dim=32,
        max_position_embeddings=128,
    ),
    MistralConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        intermediate_size=64,
        sliding_window=8,
    ),
]


@pytest.mark.parametrize("config", ARCHITECTURES, ids=lambda config: str(config.model_type))
def test_other_architectures(config: Any) -> None:
    words = tiny_policy.tokenizer()
    config.vocab_size, config.initializer_range = len(words) + 8, 0.4
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config)
    own = TransformersEngine(model, words, name=str(config.model_type))
    first = own.sample([Request(prompt(1, 100), replace_sampling(max_tokens=5), 1, None, "a")])[0]
    grown = (*prompt(1, 100), *first.ids, 11)
    # A short addition to a long context beside a long new one: padding would stand behind the last known position.
    batch = [Request(grown, FREE, 1, None, "a"), Request(prompt(2, 110), FREE, 2, None, "b")]
    for request, sample in zip(batch, own.sample(batch), strict=True):
        assert same(sample, own.sample([replace(request, session=None)])[0])
        with torch.no_grad():
            logits = model(torch.tensor([[*request.prompt_ids, *sample.ids]])).logits[0]
        logp = torch.log_softmax(logits, -1)[len(request.prompt_ids) - 1 : -1]
        wanted = logp.gather(1, torch.tensor(sample.ids)[:, None])[:, 0]
        assert torch.tensor(sample.logprobs) == pytest.approx(wanted, abs=1e-4)


# ---- restriction -----------------------------------------------------------------------------------------------------


def test_restricted_outputs_are_choices_and_their_probabilities_sum_to_one(engine: TransformersEngine) -> None:
    samples = engine.sample([Request(prompt(1, 20), FREE, seed, COMMANDS) for seed in range(150)])
    seen = {sample.text: sum(sample.logprobs or ()) for sample in samples}
    assert set(seen) <= {f"<action>{command}</action>" for command in COMMANDS}
    assert all(sample.finish_reason == "stop" and sample.ids[-1] == engine.encoder.end_id for sample in samples)
    # Walk the tree: the log-probability of each choice from the model's own logits.
    total = 0.0
    for command in COMMANDS:
        ids = engine.choices.ids(command)
        with torch.no_grad():
            logits = engine.model(torch.tensor([[*prompt(1, 20), *ids]])).logits[0, 19:-1]
        logprob = 0.0
        for position, allowed in enumerate(engine.choices.allowed(COMMANDS, ids)):
            logp = torch.log_softmax(logits[position, allowed], -1)
            logprob += float(logp[allowed.index(ids[position])])
        total += math.exp(logprob)
        text = f"<action>{command}</action>"
        if text in seen:
            assert seen[text] == pytest.approx(logprob, abs=1e-4)
            share = sum(sample.text == text for sample in samples) / len(samples)
            assert share == pytest.approx(math.exp(logprob), abs=0.15)
    assert total == pytest.approx(1, abs=1e-5) and len(seen) > 1


def test_what_leaves_no_choice_is_certain(engine: TransformersEngine) -> None:
    sample = engine.sample([Request(prompt(1, 20), FREE, 1, ("open fridge 1",))])[0]
    assert sample.text == "<action>open fridge 1</action>" and set(sample.logprobs or ()) == {0.0}
    # Outputs are not cut in the middle of a command, however few tokens are allowed.
    short = Request(prompt(1, 20), replace_sampling(max_tokens=1), 1, COMMANDS)
    assert engine.sample([short])[0].finish_reason == "stop"


# ---- ends ------------------------------------------------------------------------------------------------------------


def silence(engine: TransformersEngine, *tokens: int) -> None:
    """Makes a model that never writes these ids."""

    def forbid(module: object, inputs: object, output: Any) -> Any:
        output.logits[..., list(tokens)] = -1e9
        return output

    engine.model.register_forward_hook(forbid)


def test_outputs_end_by_length_by_end_mark_and_by_stop_text() -> None:
    own = tiny_policy.engine()
    end = own.encoder.end_id
    ends = [sample for sample in own.sample([Request(prompt(s, 9), FREE, s) for s in range(60)]) if end in sample.ids]
    assert ends and all(s.ids.index(end) == len(s.ids) - 1 and s.finish_reason == "stop" for s in ends)
    assert all("<|end|>" not in sample.text for sample in ends)
    silence(own, end)
    for number in (1, 5, 12):
        sample = own.sample([Request(prompt(1, 9), replace_sampling(max_tokens=number), 1)])[0]
        assert (len(sample.ids), sample.finish_reason) == (number, "length")
    whole = own.sample([Request(prompt(1, 9), FREE, 1)])[0]
    stop = whole.text[4:7]
    cut = own.sample([Request(prompt(1, 9), replace_sampling(stop=("never there", stop)), 1)])[0]
    assert cut.finish_reason == "stop" and stop in cut.text and cut.ids == whole.ids[: len(cut.ids)]
    assert stop not in decode_bytes(cut.pieces[:-1])


def test_an_output_ends_where_the_context_does() -> None:
    own = tiny_policy.engine()
    silence(own, own.encoder.end_id)
    own.model.config.max_position_embeddings = 64
    sample = own.sample([Request(prompt(1, 60), FREE, 1)])[0]
    assert (len(sample.ids), sample.finish_reason) == (4, "length")


# ---- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, 64, 65, 5000])
def test_a_prompt_that_does_not_fit_is_a_mistake_to_mend(length: int) -> None:
    own = tiny_policy.engine()
    own.model.config.max_position_embeddings = 64
    with pytest.raises(ConfigError, match=f"{length} tokens.*64.*windowed"):
        own.sample([Request((9,) * length, FREE, 1)])
    with pytest.raises(ConfigError, match="windowed"):
        asyncio.run(own.generate([Request((9,) * length, FREE, 1)]))


def test_a_command_that_does_not_fit_behind_its_prompt_is_one_too() -> None:
    own = tiny_policy.engine()
    own.model.config.max_position_embeddings = 64
    with pytest.raises(ConfigError, match="60 tokens"):
        own.sample([Request((9,) * 60, FREE, 1, COMMANDS)])


def broken(error: Exception, after: int = 0) -> TransformersEngine:
    own = tiny_policy.engine()
    calls = iter(range(10**6))

    def fail(module: object, inputs: object) -> None:
        if next(calls) >= after:
            raise error

    own.model.register_forward_pre_hook(fail)
    return own


def guess(engine: TransformersEngine, jobs: int = 4, **settings: Any) -> list[Episode]:
    agent = EngineAgent(engine, PlaySettings(**{"max_tokens": 8, "prompts": "compact", **settings}))
    found: list[Episode] = []
    plan = [Job(number, 0, Seed((0, number))) for number in range(jobs)]
    rollout(plan, agent, lambda: GuessEnv(panel("easy")), on_episode=lambda job, episode: found.append(episode))
    return found


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "error", [RuntimeError("out of memory\nmore"), RuntimeError(""), IndexError("token"), torch.OutOfMemoryError("no")]
)
def test_a_broken_model_makes_broken_episodes_and_leaves_nobody_waiting(error: Exception) -> None:
    with pytest.raises(EngineError, match=r"^tiny: "):
        asyncio.run(broken(error).generate([Request((9, 9), FREE, 1), Request((8,), FREE, 2)]))
    episodes = guess(broken(error, after=30))
    assert [episode.status for episode in episodes] == ["engine_error"] * 4
    assert all(episode.success is None and "\n" not in (episode.error or "\n") for episode in episodes)


def test_weights_that_are_not_numbers_are_the_engines_fault() -> None:
    own = tiny_policy.engine()
    with torch.no_grad():
        next(own.model.parameters()).fill_(float("nan"))
    assert {episode.status for episode in guess(own)} == {"engine_error"}


def test_an_engine_goes_on_after_a_failure_and_in_another_loop(engine: TransformersEngine) -> None:
    own = TransformersEngine(engine.model, engine.tokenizer, name="own")
    request = Request(prompt(1, 10), FREE, 1)
    with pytest.raises(ConfigError):
        asyncio.run(own.generate([request, Request((), FREE, 1)]))
    assert asyncio.run(own.generate([request])) == engine.sample([request])


def test_a_session_outlives_a_failure() -> None:
    calls = iter(range(100))

    def fail_once(module: object, inputs: object) -> None:
        if next(calls) == 1:
            raise RuntimeError("for once")

    own = tiny_policy.engine()
    own.model.model.layers[1].register_forward_pre_hook(fail_once)
    request = Request(prompt(1, 10), replace_sampling(max_tokens=1), 1, None, "a")
    longer = replace(request, prompt_ids=(*prompt(1, 10), *prompt(2, 10)))
    own.sample([request])
    with pytest.raises(RuntimeError):
        own.sample([longer])
    assert same(own.sample([longer])[0], tiny_policy.engine().sample([longer])[0])


def test_requests_that_wait_together_are_one_batch(engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    sample = TransformersEngine.sample

    def counting(self: TransformersEngine, batch: Sequence[Request]) -> list[Sample]:
        sizes.append(len(batch))
        return sample(self, batch)

    monkeypatch.setattr(TransformersEngine, "sample", counting)
    own = TransformersEngine(engine.model, engine.tokenizer, name="own", max_batch=3)

    async def ask() -> list[list[Sample]]:
        return list(await asyncio.gather(*(own.generate([request]) for request in requests())))

    found = [samples[0] for samples in asyncio.run(ask())]
    assert sizes == [3, 3]
    assert all(same(a, b) for a, b in zip(found, engine.sample(requests()), strict=True))


# ---- bytes -----------------------------------------------------------------------------------------------------------


def test_any_ids_have_text_and_spans(engine: TransformersEngine) -> None:
    """Random ids, which make broken UTF-8: nothing raises, and the action's tokens are found by their bytes."""
    marks = [engine.tokenizer.convert_tokens_to_ids(mark) for mark in ("<action>", "</action>")]
    for seed in range(100):
        random = np.random.default_rng(seed)
        before, inside, after = (random.integers(0, len(engine.pieces), size=random.integers(1, 9)) for _ in range(3))
        inside = inside[~np.isin(inside, [*marks, engine.encoder.end_id])]
        ids = [*before[~np.isin(before, marks)], marks[0], *inside, marks[1], *after[~np.isin(after, marks)]]
        pieces = [engine.pieces[token] for token in ids]
        action = GuessEnv(panel("easy")).parse(decode_bytes(pieces))
        span = token_span(pieces, action.start, action.end)
        if span is not None:
            opened, closed = ids.index(marks[0]), ids.index(marks[1])
            assert opened < span[0] < span[1] <= closed
            assert decode_bytes(pieces[span[0] : span[1]]).strip() == action.text


def test_ids_beyond_the_tokenizer_are_silent() -> None:
    own = tiny_policy.engine()
    own.model.resize_token_embeddings(len(own.tokenizer) + 5)
    assert len(own.pieces) == len(own.tokenizer) + 5 and own.pieces[-1] == b""
    silence(own, *range(len(own.tokenizer)))
    sample = own.sample([Request((9, 9), FREE, 1)])[0]
    assert sample.text == "" and min(sample.ids) >= len(own.tokenizer)


def test_each_episode_frees_its_own_session(engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str | None] = []
    freed: list[str] = []
    sample = TransformersEngine.sample

    def watched(self: TransformersEngine, requests: Sequence[Request]) -> list[Sample]:
        used.extend(request.session for request in requests)
        return sample(self, requests)

    monkeypatch.setattr(TransformersEngine, "sample", watched)
    monkeypatch.setattr(TransformersEngine, "release", lambda self, session: freed.append(session))
    agents = [EngineAgent(engine, PlaySettings(max_tokens=4)) for _ in range(2)]  # two agents on one engine
    for agent in agents:
        assert asyncio.run(play(GuessEnv(panel("easy")), agent, Job(0, 0, Seed((0,))))).completed
    assert len(set(freed)) == 2 and list(dict.fromkeys(used)) == freed


# A command is longer than an id, so there are sizes at which the next prompt fits and the command behind it does not.
@pytest.mark.parametrize(("context", "restrict"), [(150, "none"), *((size, "admissible") for size in range(90, 99))])
def test_a_conversation_that_fills_the_context_ends_its_own_episode_only(context: int, restrict: Any) -> None:
    size = tiny_policy.TINY.model_copy(update={"context": context})
    settings = PlaySettings(prompts="compact", style="append", max_tokens=40, restrict=restrict)
    agent = EngineAgent(tiny_policy.engine(size, sharpness=1.0), settings)
    found: list[Episode] = []
    jobs = [Job(index, 0, Seed((index,))) for index in range(4)]
    rollout(
        jobs, agent, lambda: agentgym.make("guess", max_steps=50), on_episode=lambda job, episode: found.append(episode)
    )
    assert len(found) == 4
    for episode in found:
        assert episode.status == "truncated" and episode.success is False
        assert episode.error and "style=windowed" in episode.error
        assert 0 < len(episode.context_ids(len(episode.turns) - 1)) < context


@pytest.mark.parametrize("bias", [False, True], ids=["llama", "qwen2"])
def test_reading_without_the_library_around_it_is_reading(bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tiny_policy.engine()
    if bias:
        size = own.model.config.to_dict()
        names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")
        with torch.random.fork_rng():
            torch.manual_seed(0)
            config = Qwen2Config(vocab_size=len(own.tokenizer), **{name: size[name] for name in names})
            model = Qwen2ForCausalLM(config)
            for name, parameter in model.named_parameters():
                torch.nn.init.normal_(parameter) if "bias" in name else parameter.data.mul_(10)
        own = TransformersEngine(model, own.tokenizer, name="qwen2")
    requests = [Request(prompt(seed, 5 + seed), FREE, seed, None, str(seed)) for seed in range(5)]
    monkeypatch.setattr(type(own.model), "forward", None)  # calling it is an error
    quick = own.sample(requests)
    monkeypatch.undo()
    monkeypatch.setattr(LlamaReader, "hooked", property(lambda self: True))
    own.forget()
    whole = own.sample(requests)
    assert all(same(one, other) for one, other in zip(quick, whole, strict=True))


def test_a_prompt_that_many_begin_with_is_read_once() -> None:
    own = tiny_policy.engine()
    common, other = prompt(1, 40), prompt(2, 30)
    together = [Request(common, FREE, seed, None, f"a{seed}") for seed in range(5)]
    together += [Request(other, FREE, 9, None, "b"), Request(common, FREE, 20, COMMANDS, "c")]
    read: list[int] = []
    feed = own._cache.feed

    def counting(blocks: Any) -> Any:
        read.append(sum(map(len, blocks)))
        return feed(blocks)

    own._cache.feed = counting  # type: ignore[method-assign]
    found = own.sample(together)
    assert read[0] == 39 and read[1] < 30 + 6 + 10
    alone = tiny_policy.engine()
    assert all(same(sample, alone.sample([request])[0]) for sample, request in zip(found, together, strict=True))
    # Each goes on by itself.
    longer = [replace(r, prompt_ids=(*r.prompt_ids, *s.ids, 9, 10)) for r, s in zip(together, found, strict=True)]
    fresh = tiny_policy.engine()
    for sample, request in zip(own.sample(longer), longer, strict=True):
        assert same(sample, fresh.sample([replace(request, session=None)])[0])
