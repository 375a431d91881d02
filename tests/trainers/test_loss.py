from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from agentgym.trainers.loss import clipped_loss, clipped_tokens, kl_penalty, token_weights, truncated_importance

KINDS = ("token_mean", "seq_mean_token_sum_norm", "seq_mean_token_mean", "turn_mean")


def row(*values: float) -> Tensor:
    return torch.tensor([values], dtype=torch.float32)


@pytest.mark.parametrize(
    ("advantage", "ratio", "loss", "slope"),
    [
        (-1, 4, 3, 0),
        (-1, 2, 2, 2),
        (-1, 0.5, 0.8, 0),
        (1, 2, -1.2, 0),
        (1, 0.5, -0.5, -0.5),
        (1, 1, -1, -1),
        (0, 3, 0, 0),
    ],
)
def test_the_clipped_loss_and_its_gradient(advantage: float, ratio: float, loss: float, slope: float) -> None:
    logprobs = row(math.log(ratio) - 1).requires_grad_()
    got = clipped_loss(logprobs, row(-1.0), row(advantage))
    assert got.item() == pytest.approx(loss, abs=1e-6)
    got.sum().backward()
    assert logprobs.grad is not None
    assert logprobs.grad.item() == pytest.approx(slope, abs=1e-6)


def test_asymmetric_bounds_and_another_dual_clip() -> None:
    logprobs, old = row(math.log(2), math.log(0.1), math.log(9)), row(0, 0, 0)
    loss = clipped_loss(logprobs, old, row(1, -1, -1), clip_low=0.3, clip_high=0.24, dual_clip=5.0)
    assert loss[0].tolist() == pytest.approx([-1.24, 0.7, 5.0])


def test_which_tokens_are_clipped() -> None:
    logprobs = row(*(math.log(ratio) for ratio in (1.3, 1.3, 0.7, 0.7, 1.1, 1.3)))
    clipped = clipped_tokens(logprobs, torch.zeros(1, 6), row(1, -1, 1, -1, 1, 0))
    assert clipped[0].tolist() == [True, False, False, True, False, False]
    assert not clipped_tokens(row(math.log(1.22)), row(0), row(1), clip_high=0.24).any()


def test_extreme_ratios_leave_finite_gradients() -> None:
    logprobs = row(0.0, 0.0, -300.0, -300.0).requires_grad_()
    old = row(-300.0, -300.0, 0.0, 0.0)
    total = clipped_loss(logprobs, old, row(1, -1, 1, -1)).sum() + kl_penalty(logprobs, old).sum()
    total.backward()
    assert logprobs.grad is not None
    assert torch.isfinite(logprobs.grad).all()


def test_neither_advantages_nor_old_log_probabilities_get_a_gradient() -> None:
    logprobs, old, advantages = (row(-0.5).requires_grad_() for _ in range(3))
    clipped_loss(logprobs, old, advantages).sum().backward()
    assert (old.grad, advantages.grad) == (None, None)
    assert logprobs.grad is not None


def test_divergence_estimates() -> None:
    d = row(0.1, -0.5, 0.0, 12.0)
    logprobs = torch.full_like(d, -3.0).requires_grad_()
    assert kl_penalty(logprobs, logprobs.detach() + d)[0].tolist() == pytest.approx(
        [0.005171, 0.106531, 0, 10], abs=1e-6
    )
    assert kl_penalty(logprobs, logprobs.detach() + d, "k1")[0].tolist() == pytest.approx([-0.1, 0.5, 0, -12], abs=1e-6)
    assert kl_penalty(logprobs, logprobs.detach() + d, "k2")[0].tolist() == pytest.approx(
        [0.005, 0.125, 0, 72], abs=1e-5
    )
    kl_penalty(logprobs, logprobs.detach() + d).sum().backward()
    assert logprobs.grad is not None
    assert logprobs.grad[0].tolist() == pytest.approx([1 - math.exp(0.1), 1 - math.exp(-0.5), 0, 0], abs=1e-6)


@given(probabilities=st.lists(st.floats(0.05, 1), min_size=2, max_size=5), seed=st.integers(0, 2**32))
def test_k1_and_k3_have_the_divergence_as_their_mean(probabilities: list[float], seed: int) -> None:
    policy = torch.tensor(probabilities, dtype=torch.float64)
    policy = policy / policy.sum()
    noise = np.random.Generator(np.random.Philox(seed)).uniform(-1, 1, len(policy))
    reference = policy * torch.tensor(noise).exp()  # far from where the value of k3 is cut
    reference = reference / reference.sum()
    divergence = float((policy * (policy / reference).log()).sum())
    for kind in ("k1", "k3"):
        mean = float((policy * kl_penalty(policy.log(), reference.log(), kind)).sum())
        assert mean == pytest.approx(divergence, abs=1e-9)


def test_the_truncated_importance_weight() -> None:
    old = row(-1.0, -1.0, -1.0, -1.0).requires_grad_()
    weight = truncated_importance(old, row(-1.5, -2.0, -0.5, -1.0))
    assert weight[0].tolist() == pytest.approx([1.648721, 2.0, 0.606531, 1.0], abs=1e-6)
    assert not weight.requires_grad
    assert truncated_importance(old, row(-1.5, -2.0, -0.5, -1.0), cap=3.0)[0, 1].item() == pytest.approx(math.e)


def test_each_aggregation_by_hand() -> None:
    mask = torch.tensor([[1, 1, 1, 0], [1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]], dtype=torch.bool)
    sequence = torch.tensor([[0] * 4, [0] * 4, [1] * 4, [2] * 4])
    turn = torch.tensor([[0] * 4, [1] * 4, [2] * 4, [3] * 4])
    loss = torch.tensor([[1.0, 2, 3, 99], [10, 99, 99, 99], [4, 6, 99, 99], [99, 99, 99, 99]])
    expected = {
        "token_mean": 26 / 6,
        "seq_mean_token_sum_norm": (16 / 8 + 10 / 8) / 2,
        "seq_mean_token_mean": (16 / 4 + 10 / 2) / 2,
        "turn_mean": (2 + 10 + 5) / 3,
    }
    for kind in KINDS:
        weights = token_weights(kind, mask, sequence, turn, max_tokens=8)  # type: ignore[arg-type]
        assert float((loss * weights).sum()) == pytest.approx(expected[kind])
        assert not weights[~mask].any()
        nothing = token_weights(kind, torch.zeros_like(mask), sequence, turn, max_tokens=8)  # type: ignore[arg-type]
        assert not nothing.any()
    with pytest.raises(ValueError, match="max_tokens"):
        token_weights("seq_mean_token_sum_norm", mask, sequence, turn)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), kind=st.sampled_from(KINDS), size=st.integers(1, 7))
def test_the_gradient_is_the_same_under_any_split_order_and_padding(seed: int, kind: str, size: int) -> None:
    rng = np.random.Generator(np.random.Philox(seed))
    rows, width, features = 7, 9, 4
    inputs = torch.tensor(rng.normal(size=(rows, width, features)), dtype=torch.float32)
    old, advantages = (torch.tensor(rng.normal(0, 0.3, (rows, width)), dtype=torch.float32) for _ in range(2))
    mask = torch.tensor(rng.random((rows, width)) < 0.6)
    sequence = torch.tensor(rng.integers(0, 3, rows))[:, None].expand(rows, width)
    turn = torch.arange(rows)[:, None].expand(rows, width)

    def gradient(order: list[int], step: int, left: int, right: int) -> Tensor:
        def pad(x: Tensor) -> Tensor:
            return torch.nn.functional.pad(x, (left, right))

        columns = [pad(x[order]) for x in (old, advantages, mask, sequence, turn)]
        padded_inputs = torch.nn.functional.pad(inputs[order], (0, 0, left, right), value=0.5)
        batch_old, batch_advantages, batch_mask, batch_sequence, batch_turn = columns
        weights = token_weights(kind, batch_mask, batch_sequence, batch_turn, max_tokens=width)  # type: ignore[arg-type]
        parameter = torch.full((features,), 0.1, requires_grad=True)
        for start in range(0, rows, step):
            part = slice(start, start + step)
            logprobs = padded_inputs[part] @ parameter
            loss = clipped_loss(logprobs, batch_old[part], batch_advantages[part]) + 0.01 * kl_penalty(
                logprobs, batch_old[part]
            )
            (loss * weights[part]).sum().backward()
        assert parameter.grad is not None
        return parameter.grad

    whole = gradient(list(range(rows)), rows, 0, 0)
    assert gradient(list(rng.permutation(rows)), size, 0, 2) == pytest.approx(whole, abs=1e-6)
    assert gradient(list(range(rows)), size, 3, 0) == pytest.approx(whole, abs=1e-6)


def test_one_row_a_turn_and_one_row_an_episode_weigh_alike() -> None:
    lengths = [[3, 1], [2, 4, 1]]
    sequence = torch.tensor([e for e, turns in enumerate(lengths) for n in turns for _ in range(n)])
    turn = torch.tensor([t for t, n in enumerate([n for turns in lengths for n in turns]) for _ in range(n)])
    flat = torch.ones(1, len(turn), dtype=torch.bool)
    for kind in KINDS:
        packed = token_weights(kind, flat, sequence[None], turn[None], max_tokens=8)[0]  # type: ignore[arg-type]
        width = 4
        mask, owner, place = (
            torch.zeros(5, width, dtype=torch.bool),
            torch.zeros(5, width).long(),
            torch.zeros(5, width).long(),
        )
        for k in range(5):
            n = int((turn == k).sum())
            mask[k, :n] = True
            owner[k], place[k] = sequence[turn == k][0], k
        assert token_weights(kind, mask, owner, place, max_tokens=8)[mask].tolist() == packed.tolist()  # type: ignore[arg-type]
