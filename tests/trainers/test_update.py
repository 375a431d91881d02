from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_policy
import torch
from safetensors.torch import load_file
from torch import Tensor

from agentgym.errors import ConfigError
from agentgym.seeding import Seed
from agentgym.trainers.batch import Row, episode_rows
from agentgym.trainers.config import UpdateSection
from agentgym.trainers.credit.grpo import normalise
from agentgym.trainers.policy import Policy, row_logprobs, score_rows
from agentgym.trainers.update import NotFinite, TrainRow, update

SEED = Seed((0,))


class Recorder(torch.optim.SGD):
    """Remembers the gradients of each step, and takes no step unless it has a learning rate."""

    def __init__(self, policy: Policy, lr: float = 0.0) -> None:
        super().__init__(policy.model.parameters(), lr=lr)
        self.gradients: list[list[Tensor]] = []

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.gradients.append(
            [
                torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
                for group in self.param_groups
                for parameter in group["params"]
            ]
        )
        super().step(closure)


def config(**changes: Any) -> UpdateSection:
    return UpdateSection(**{"kl_coef": 0.0, "grad_clip": 1e9, "importance_cap": 2.0, **changes})


def made(policy: Policy, count: int = 7, seed: int = 0, *, windowed: bool = False, ref: bool = False) -> list[TrainRow]:
    """Rows of random ids; append rows hold several turns, and two windowed rows are one episode."""
    random = np.random.default_rng(seed)
    rows: list[TrainRow] = []
    for number in range(count):
        length = int(random.integers(8, 30))
        positions = np.sort(random.choice(np.arange(2, length), size=int(random.integers(2, 6)), replace=False))
        turns = np.full(len(positions), number % 2) if windowed else np.arange(len(positions)) // 2
        allowed = None
        ids = random.integers(7, 390, size=length)
        if number % 3 == 0:
            allowed = [sorted({int(ids[p]), *random.integers(7, 390, size=3).tolist()}) for p in positions]
        row = Row(ids, positions, turns, allowed, 0.7)
        (old,) = score_rows(policy.model, [row], 10_000)
        noise = torch.tensor(random.normal(size=len(old)) * 0.1, dtype=torch.float32)
        rows.append(
            TrainRow(
                row=row,
                episode=number // 2 if windowed else number,
                advantages=torch.tensor(random.normal(size=len(old)), dtype=torch.float32),
                old=old,
                sampler=old,
                ref=old + noise if ref else None,
                mask=torch.ones(len(old), dtype=torch.bool),
            )
        )
    return rows


def gradient(policy: Policy, rows: list[TrainRow], settings: UpdateSection) -> list[Tensor]:
    recorder = Recorder(policy)
    update(policy, recorder, rows, settings, SEED)
    (found,) = recorder.gradients
    return found


def close(one: list[Tensor], other: list[Tensor]) -> bool:
    scale = max(float(a.abs().max()) for a in one)
    return all(float((a - b).abs().max()) < 1e-5 * max(scale, 1e-6) + 1e-9 for a, b in zip(one, other, strict=True))


def changed(row: TrainRow, /, **values: Any) -> TrainRow:
    return TrainRow(**{**vars(row), **values})


@pytest.mark.parametrize("windowed", [False, True], ids=["append", "windowed"])
@pytest.mark.parametrize("aggregation", ["token_mean", "seq_mean_token_sum_norm", "seq_mean_token_mean", "turn_mean"])
def test_the_gradient_is_the_same_under_any_cut_and_order(policy: Policy, aggregation: str, windowed: bool) -> None:
    rows = made(policy, windowed=windowed, ref=True)
    whole = gradient(policy, rows, config(aggregation=aggregation, kl_coef=0.1, most_tokens=10**6))
    assert max(float(part.abs().max()) for part in whole) > 1e-4
    for most in (1, 60):
        assert close(whole, gradient(policy, rows, config(aggregation=aggregation, kl_coef=0.1, most_tokens=most)))
    assert close(whole, gradient(policy, rows[::-1], config(aggregation=aggregation, kl_coef=0.1, most_tokens=60)))


def test_rows_that_were_cut_off_are_not_read(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = made(policy, ref=True)
    cut = [changed(item, mask=item.mask & (number > 2)) for number, item in enumerate(rows)]
    read: list[Row] = []

    def reading(model: Any, batch: list[Row], **options: Any) -> Any:
        read.extend(batch)
        return row_logprobs(model, batch, **options)

    monkeypatch.setattr("agentgym.trainers.update.row_logprobs", reading)
    found = gradient(policy, cut, config(kl_coef=0.1))
    assert {id(row) for row in read} == {id(item.row) for item in rows[3:]}
    assert close(found, gradient(policy, rows[3:], config(kl_coef=0.1)))
    recorder = Recorder(policy)
    stats = update(policy, recorder, cut[:3], config(kl_coef=0.1), SEED)
    assert not recorder.gradients and stats["update/skipped_steps"] == 1


def test_policy_gradient_by_hand(policy: Policy) -> None:
    """On the policy that sampled, the gradient is that of -mean(A log p)."""
    rows = made(policy)
    policy.model.zero_grad(set_to_none=True)
    total, tokens = torch.zeros(()), 0
    for item in rows:
        logits = policy.model(torch.tensor(item.row.ids)[None]).logits[0] / 0.7
        for number, position in enumerate(item.row.positions):
            line = logits[position - 1]
            if item.row.allowed is not None:
                closed = torch.ones(len(line), dtype=torch.bool)
                closed[item.row.allowed[number]] = False
                line = line.masked_fill(closed, float("-inf"))
            total = total - item.advantages[number] * torch.log_softmax(line, -1)[int(item.row.ids[position])]
            tokens += 1
    (total / tokens).backward()
    wanted = [parameter.grad.clone() for parameter in policy.model.parameters() if parameter.grad is not None]
    policy.model.zero_grad(set_to_none=True)
    assert close(wanted, gradient(policy, rows, config()))


def test_the_divergence_pulls_towards_the_reference(policy: Policy) -> None:
    rows = [changed(row, advantages=row.advantages * 1e-12) for row in made(policy, ref=True)]
    policy.model.zero_grad(set_to_none=True)
    total, tokens = torch.zeros(()), 0
    for item in rows:
        logits = policy.model(torch.tensor(item.row.ids)[None]).logits[0] / 0.7
        assert item.ref is not None
        for number, position in enumerate(item.row.positions):
            line = logits[position - 1]
            if item.row.allowed is not None:
                closed = torch.ones(len(line), dtype=torch.bool)
                closed[item.row.allowed[number]] = False
                line = line.masked_fill(closed, float("-inf"))
            d = item.ref[number] - torch.log_softmax(line, -1)[int(item.row.ids[position])]
            total, tokens = total + d.exp() - d - 1, tokens + 1
    (0.5 * total / tokens).backward()
    wanted = [parameter.grad.clone() for parameter in policy.model.parameters() if parameter.grad is not None]
    policy.model.zero_grad(set_to_none=True)
    assert close(wanted, gradient(policy, rows, config(kl_coef=0.5)))


def test_the_samplers_rounding_is_corrected_up_to_the_cap(policy: Policy) -> None:
    rows = made(policy, 1)
    plain = gradient(policy, rows, config())
    half = gradient(policy, [changed(row, sampler=row.old - 0.5) for row in rows], config())
    much = gradient(policy, [changed(row, sampler=row.old - 5.0) for row in rows], config())
    assert close([1.648721 * part for part in plain], half) and close([2 * part for part in plain], much)


def test_outputs_that_were_cut_off_have_no_effect(policy: Policy) -> None:
    rows = made(policy, ref=True)
    settings = config(kl_coef=0.1)
    base = gradient(policy, rows, settings)
    cut = [changed(row, mask=torch.zeros_like(row.mask)) for row in made(policy, 3, seed=9, ref=True)]
    assert close(base, gradient(policy, [*rows, *cut], settings))
    # Within a row: as if the last turn had not been trained.
    row = made(policy, 1, seed=4)[0]
    last = torch.from_numpy(row.row.turns == row.row.turns.max())
    shorter = Row(
        row.row.ids,
        row.row.positions[~last.numpy()],
        row.row.turns[~last.numpy()],
        None if row.row.allowed is None else row.row.allowed[: int((~last).sum())],
        0.7,
    )
    kept = {name: vars(row)[name][~last] for name in ("advantages", "old", "sampler", "mask")}
    assert 0 < int((~last).sum()) < len(last)
    masked = gradient(policy, [changed(row, mask=~last)], config())
    assert close(masked, gradient(policy, [changed(row, row=shorter, **kept)], config()))


def test_nothing_to_learn_changes_nothing() -> None:
    policy = tiny_policy.policy()
    rows = [changed(row, advantages=torch.zeros_like(row.advantages)) for row in made(policy)]
    before = {key: value.clone() for key, value in policy.model.state_dict().items()}
    optimiser = torch.optim.AdamW(policy.model.parameters(), lr=0.1, weight_decay=0.01)
    stats = update(policy, optimiser, rows, config(minibatches=2), SEED)
    assert all(bool((value == before[key]).all()) for key, value in policy.model.state_dict().items())
    assert stats["update/skipped_steps"] == 2 and stats["update/tokens"] == 0


def test_steps_are_dealt_out_and_numbers_are_logged() -> None:
    policy = tiny_policy.policy()
    rows = made(policy, 8, ref=True)
    recorder = Recorder(policy, lr=0.05)
    stats = update(policy, recorder, rows, config(minibatches=3, epochs=2, kl_coef=0.01), SEED)
    assert len(recorder.gradients) == 6
    assert stats["update/first_ratio_error"] <= 1e-4
    assert stats["update/tokens"] == 2 * sum(len(row.old) for row in rows)
    assert stats["update/policy_kl"] > 0 and stats["update/ref_kl"] > 0 and stats["update/entropy"] > 0
    assert stats["update/grad_norm"] > 0
    again = tiny_policy.policy()
    assert update(again, Recorder(again, lr=0.05), rows, config(minibatches=3, epochs=2, kl_coef=0.01), SEED) == stats


def test_the_gradient_is_clipped(policy: Policy) -> None:
    clipped = gradient(policy, made(policy), config(grad_clip=1e-3))
    assert float(torch.cat([part.flatten() for part in clipped]).norm()) == pytest.approx(1e-3, rel=1e-2)


def test_one_step_makes_what_was_good_likelier() -> None:
    policy = tiny_policy.policy()
    rows = made(policy, 4)
    good = [changed(row, advantages=torch.ones_like(row.advantages)) for row in rows]
    update(policy, torch.optim.AdamW(policy.model.parameters(), lr=1e-3), good, config(), SEED)
    after = torch.cat(score_rows(policy.model, [row.row for row in rows], 10_000))
    assert float(after.sum()) > float(torch.cat([row.old for row in rows]).sum())


def test_the_engine_reads_the_new_weights_at_once(play_guess: Any) -> None:
    policy = tiny_policy.policy()
    update(policy, torch.optim.AdamW(policy.model.parameters(), lr=0.01), made(policy), config(), SEED)
    for episode in play_guess.episodes(policy, 2):
        scored = torch.cat(score_rows(policy.model, episode_rows(episode, policy.engine.choices), 10_000))
        sampled = torch.tensor([value for turn in episode.turns for value in turn.output_logprobs or ()])
        assert scored == pytest.approx(sampled, abs=1e-4)


def test_entropy_is_pushed_up_by_its_coefficient(policy: Policy) -> None:
    rows = [changed(row, advantages=row.advantages * 1e-12) for row in made(policy)]
    policy.model.zero_grad(set_to_none=True)
    total, tokens = torch.zeros(()), 0
    for item in rows:
        logits = policy.model(torch.tensor(item.row.ids)[None]).logits[0] / 0.7
        for number, position in enumerate(item.row.positions):
            line = logits[position - 1]
            if item.row.allowed is not None:
                line = line[item.row.allowed[number]]
            logp = torch.log_softmax(line, -1)
            total, tokens = total + (logp.exp() * logp).sum(), tokens + 1
    (0.3 * total / tokens).backward()
    wanted = [parameter.grad.clone() for parameter in policy.model.parameters() if parameter.grad is not None]
    policy.model.zero_grad(set_to_none=True)
    assert close(wanted, gradient(policy, rows, config(entropy_coef=0.3)))


def test_activations_that_are_made_again_give_the_same_gradient(policy: Policy) -> None:
    rows = made(policy, ref=True)
    kept = gradient(policy, rows, config(kl_coef=0.1))
    calls: list[int] = []
    layer = policy.model.get_submodule("model.layers.0.mlp")
    hook = layer.register_forward_pre_hook(lambda *_: calls.append(1))
    assert close(kept, gradient(policy, rows, config(kl_coef=0.1, gradient_checkpointing=True, most_tokens=10**6)))
    hook.remove()
    assert len(calls) == 2 and not policy.model.training


def test_activations_of_a_model_that_drops_out_cannot_be_made_again() -> None:
    policy = tiny_policy.policy()
    policy.model.config.attention_dropout = 0.1
    with pytest.raises(ConfigError, match="switch it off"):
        update(policy, Recorder(policy), made(policy), config(gradient_checkpointing=True), SEED)


def test_short_arithmetic_is_near_the_long_one_and_keeps_long_weights(policy: Policy) -> None:
    rows = made(policy)
    long = torch.cat([part.flatten() for part in gradient(policy, rows, config())])
    short_policy = Policy(policy.engine, policy.settings, "bf16")
    found = gradient(short_policy, rows, config())
    short = torch.cat([part.flatten() for part in found])
    assert all(part.dtype == torch.float32 for part in found)
    assert float(torch.cosine_similarity(long, short, dim=0)) > 0.95 and not torch.equal(long, short)


@pytest.mark.parametrize("where", ["first", "second"])
def test_a_loss_that_is_no_number_stops_before_the_step(tmp_path: Path, where: str) -> None:
    policy = tiny_policy.policy()
    rows = made(policy, 6)
    steps = 1 if where == "first" else 2
    order = SEED.child("epoch", 0).generator().permutation(6)
    bad = int(order[-1])  # in the last step
    told = rows[bad - 1].row
    rows[bad] = changed(rows[bad], advantages=rows[bad].advantages * float("nan"), informed=told)
    optimiser = Recorder(policy, lr=0.1)
    with pytest.raises(NotFinite, match=r"lower update\.lr") as caught:
        update(policy, optimiser, rows, config(minibatches=steps), SEED)
    assert len(optimiser.gradients) == steps - 1
    assert all(bool(parameter.isfinite().all()) for parameter in policy.model.parameters())
    caught.value.save(tmp_path / "folder" / "batch.safetensors")
    saved = load_file(tmp_path / "folder" / "batch.safetensors")
    last = len(caught.value.batch) - 1
    assert np.array_equal(saved[f"{last}.ids"].numpy(), rows[bad].row.ids)
    assert bool(saved[f"{last}.advantages"].isnan().all()) and torch.equal(saved[f"{last}.old"], rows[bad].old)
    assert np.array_equal(saved[f"{last}.informed_ids"].numpy(), told.ids)
    assert sum(name.endswith(".informed_ids") for name in saved) == 1


def test_two_tokens_by_hand() -> None:
    """A model whose logits are weights of their own: the gradient of a group of four one-token episodes on paper."""
    policy = tiny_policy.policy()
    first, second = 50, 60
    head = torch.nn.Linear(policy.model.config.hidden_size, policy.model.config.vocab_size, bias=False)
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter.zero_()
        policy.model.get_input_embeddings().weight.fill_(1.0)  # every hidden state is a row of ones
        policy.model.get_submodule("model.norm").weight.fill_(1.0)
        head.weight.zero_()
        head.weight[first, 0] = math.log(3.0)  # probabilities 3/4 and 1/4
    policy.model.config.tie_word_embeddings = False
    policy.model.set_output_embeddings(head)
    taken, rewards = [first, first, second, first], [1.0, 0.0, 0.0, 1.0]
    advantages = normalise(rewards, "std")  # ±0.866
    rows = [
        TrainRow(
            row=Row(np.array([7, 8, token]), np.array([2]), np.array([0]), [[first, second]], 1.0),
            episode=number,
            advantages=torch.tensor([advantages[number]], dtype=torch.float32),
            old=torch.tensor([math.log(0.75 if token == first else 0.25)]),
            sampler=torch.tensor([math.log(0.75 if token == first else 0.25)]),
            ref=None,
            mask=torch.ones(1, dtype=torch.bool),
        )
        for number, token in enumerate(taken)
    ]
    update(policy, torch.optim.SGD(policy.model.parameters(), lr=1.0, weight_decay=0.0), rows, config(), SEED)
    # d(-mean A log p) / d logit = -mean A (chosen - probability): here (A+ = 0.866) the sums are 1·A+ and -1·A+.
    step = 0.8660254 * ((1 - 1 + 1) - 0.75 * (1 - 1 - 1 + 1)) / 4
    assert advantages.tolist() == pytest.approx([0.866025, -0.866025, -0.866025, 0.866025], abs=1e-5)
    assert float(head.weight[first, 0].detach()) == pytest.approx(math.log(3.0) + step, abs=1e-5)
    assert float(head.weight[second, 0].detach()) == pytest.approx(-step, abs=1e-5)


@pytest.mark.parametrize("aggregation", ["token_mean", "seq_mean_token_sum_norm", "seq_mean_token_mean", "turn_mean"])
def test_one_sequence_an_episode_and_one_row_a_turn_are_the_same_where_contexts_are(
    policy: Policy, aggregation: str
) -> None:
    appended = made(policy, 4, seed=5, ref=True)
    windowed: list[TrainRow] = []
    for item in appended:
        for turn in sorted(set(item.row.turns.tolist())):
            mine = item.row.turns == turn
            end = int(item.row.positions[mine][-1]) + 1
            allowed = item.row.allowed
            row = Row(
                item.row.ids[:end],
                item.row.positions[mine],
                item.row.turns[mine],
                None if allowed is None else [ids for ids, here in zip(allowed, mine, strict=True) if here],
                item.row.temperature,
            )
            values = {name: getattr(item, name)[mine] for name in ("advantages", "old", "sampler", "ref", "mask")}
            windowed.append(changed(item, row=row, **values))
    assert len(windowed) > len(appended)
    settings = config(aggregation=aggregation, kl_coef=0.1, entropy_coef=0.01)
    assert close(gradient(policy, appended, settings), gradient(policy, windowed, settings))
