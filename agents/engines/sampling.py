"""Drawing one token: temperature, nucleus, restriction; the log-probability is of the distribution before the nucleus.

Randomness is one uniform number per token from the request's own generator, turned into a token by the inverse of the
distribution function, so a sample does not depend on the batch it was drawn in.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from agentgym.episode import Sampling

FloatArray = npt.NDArray[np.float64]


def log_softmax(logits: FloatArray) -> FloatArray:
    """Log-probabilities along the last axis, in nats."""
    shifted = logits - logits.max()
    result: FloatArray = shifted - np.log(np.exp(shifted).sum())
    return result


def draw(
    logits: npt.NDArray[np.float32], sampling: Sampling, uniform: float, allowed: Sequence[int] | None = None
) -> tuple[int, float]:
    """Draws a token.

    Args:
        logits: [vocabulary].
        sampling: temperature 0 takes the most probable token (and reports its log-probability at temperature 1).
        uniform: a number in [0, 1).
        allowed: the only ids that may be drawn.

    Returns:
        The id and its log-probability, in nats.
    """
    chosen = logits if allowed is None else logits[np.asarray(allowed)]
    scaled = chosen.astype(np.float64) / (sampling.temperature or 1.0)
    logp = log_softmax(scaled)
    if sampling.temperature == 0:
        position = int(logp.argmax())
    else:
        p = np.exp(logp)
        order = np.arange(len(p))
        if sampling.top_p < 1:
            order = np.argsort(-p, kind="stable")
            kept = int(np.searchsorted(np.cumsum(p[order]), sampling.top_p)) + 1
            order = order[:kept]
        mass = np.cumsum(p[order])
        position = int(order[min(int(np.searchsorted(mass, uniform * mass[-1], side="right")), len(order) - 1)])
    return (position if allowed is None else int(allowed[position])), float(logp[position])
