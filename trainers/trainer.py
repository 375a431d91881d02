"""The loop: rollouts -> audit -> credit -> update -> evaluation -> checkpoint.

Invariants: what an iteration plays is a function of the seed, the iteration's number and the weights alone, so two
methods play the same episodes until their first update parts them, and a run that was killed goes on as if it had not
been. Every sampled id is audited before it is trained on.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np
import torch
from tqdm import tqdm
from transformers import PreTrainedModel

from agentgym.agents.engines import resolve_checkpoint
from agentgym.agents.engines.models import fingerprint
from agentgym.agents.engines.player import EngineAgent
from agentgym.episode import Episode, Group
from agentgym.errors import AgentGymError, EngineError
from agentgym.seeding import Seed

from . import checkpoint
from .audit import audit
from .batch import Row, episode_rows
from .config import Recipe
from .credit import ScoreRequest, credit_groups, credit_options, get_credit
from .credit.base import TurnScores
from .credit.pooled import pool
from .curves import draw_curves
from .log import Log, write_lines
from .lora import add_lora, load_lora, without_lora
from .play import Played, Player, Trials, outcome_stats, rollout_stats
from .policy import Policy
from .sampler import VllmSampler
from .scorer import PolicyScorer
from .teacher import Teacher
from .update import NotFinite, TrainRow, update

_LOGGER = logging.getLogger(__name__)


class KnownScores:
    """A scorer that already knows the plain scores, so that the student is never scored twice."""

    def __init__(self, scorer: PolicyScorer, plain: dict[int, TurnScores]) -> None:
        self._scorer = scorer
        self._plain = plain

    def score(self, requests: Sequence[ScoreRequest]) -> list[TurnScores | None]:
        """One answer per request, in order."""
        known = [
            self._plain[id(request.episode)] if request.hint is None and request.weights == "policy" else None
            for request in requests
        ]
        unknown = [request for request, scores in zip(requests, known, strict=True) if scores is None]
        asked = iter(self._scorer.score(unknown))
        return [next(asked) if scores is None else scores for scores in known]


class Trainer:
    """A training run in a directory that is held open by the caller.

    Args:
        recipe: the recipe.
        out: the run directory.

    Raises:
        AgentGymError: for unknown names, missing data or a corrupt checkpoint.
    """

    def __init__(self, recipe: Recipe, out: Path) -> None:
        self.recipe = recipe
        self.out = out
        self.method = get_credit(recipe.method, **recipe.credit_options)
        self._root = Seed((recipe.run.seed,))
        found = checkpoint.latest(out / "checkpoints", self._fingerprint)
        self.iteration, folder = (0, None) if found is None else found
        self.policy = self._policy(folder)
        self.policy.engine.name = f"hf/{recipe.policy.model}"
        # Records name the weights that training started from, and how often they were updated.
        start = fingerprint(resolve_checkpoint(recipe.policy.model))
        self._versions = {**self.policy.engine.versions, "weights": start}
        self.sampler: VllmSampler | None = None
        if recipe.rollout.sampler == "vllm":
            weights = resolve_checkpoint(recipe.policy.model) if folder is None else folder
            self.sampler = VllmSampler(self.policy, weights, recipe.rollout.vllm, out / "weights")
        engine = self.policy.engine if self.sampler is None else self.sampler.engine
        self._versions |= {**engine.versions, "weights": start}
        self.agent = EngineAgent(engine, self.policy.settings)
        self.player = Player(recipe, self.agent, self._eval_agent(), self._root)
        # With adapters, the policy without them is its own reference.
        self._adapted = recipe.policy.lora.rank > 0
        wanted = recipe.update.kl_coef > 0 and not self._adapted
        self.reference = self._initial_weights() if wanted else None
        rule = self.method.teacher
        self.teacher = None if rule is None else Teacher(rule, self._initial_weights())
        teacher = None if self.teacher is None else self.teacher.model
        self.scorer = PolicyScorer(self.policy, recipe.update.most_tokens, teacher)
        config = recipe.update
        self.optimiser = torch.optim.AdamW(
            [parameter for parameter in self.policy.model.parameters() if parameter.requires_grad],
            lr=config.lr,
            betas=(0.9, 0.999),
            weight_decay=config.weight_decay,
        )
        if folder is not None:
            checkpoint.load_optimiser(folder, self.optimiser)
            if self.teacher is not None:
                self.teacher.load(folder)
        self.log = Log(out / "metrics.jsonl", before=self.iteration)

    @property
    def _fingerprint(self) -> str:
        """Of all in the recipe that changes what is trained, so that checkpoints of other recipes are told apart."""
        free = {"run": {"iterations", "save_every", "keep", "keep_best"}}
        return hashlib.sha256(self.recipe.model_dump_json(exclude=free).encode()).hexdigest()[:16]

    def _policy(self, saved: Path | None) -> Policy:
        """The policy of a checkpoint, or the one that training begins with."""
        config = self.recipe.policy
        adapted = config.lora.rank > 0
        policy = Policy.load(
            config.model if saved is None or adapted else str(saved),
            overrides=config.settings,
            device=config.device,
            precision=config.precision,
        )
        if adapted:
            # What a checkpoint holds for others has the adapters added to the weights; training keeps them apart.
            add_lora(policy.model, config.lora, self._root.child("lora"))
            if saved is not None:
                load_lora(policy.model, saved)
        return policy

    def run(self) -> Path:
        """Trains to the last iteration, evaluating and saving on the way; returns the last checkpoint."""
        config = self.recipe.run
        with tqdm(total=config.iterations, initial=self.iteration, unit="iteration", disable=None) as bar:
            while self.iteration < config.iterations:
                if self.iteration % self.recipe.eval.every == 0:
                    self._evaluate(bar)
                self._iterate(bar)
                bar.update()
            self._evaluate(bar)
        draw_curves(self.log.lines, self.out / "curves.png", title=f"{self.recipe.method} on {self.recipe.env.split}")
        self._tell_of_broken_episodes()
        found = checkpoint.latest(self.out / "checkpoints", self._fingerprint)
        if found is None:
            raise AgentGymError(f"{self.out} holds no checkpoint although the run is done; start it again")
        return found[1]

    def _iterate(self, bar: tqdm[NoReturn]) -> None:
        number = self.iteration
        began = time.perf_counter()
        self.agent.engine.versions = {**self._versions, "iteration": str(number)}
        played = self._play(number)
        write_lines(
            self.out / "rollouts" / f"{number:06d}.jsonl",
            (episode.to_json() for group in played.groups for episode in group.episodes),
        )
        if not played.episodes:
            errors = [episode.error for group in played.groups for episode in group.episodes]
            raise EngineError(f"all {len(errors)} episodes broke ({errors[0]}); mend that and start the same command")
        trials = Trials(self.player, self.recipe.rollout.group, self.out / "trials" / f"{number:06d}.jsonl")
        rows, stats = self._credit(played, trials)
        self._set_learning_rate()
        if rows:
            config, seed = self.recipe.update, self._root.child("update", number)
            teacher = None if self.teacher is None else self.teacher.model
            try:
                stats |= update(self.policy, self.optimiser, rows, config, seed, self.method.token_loss, teacher)
            except NotFinite as error:
                file = self.out / "not_finite" / f"{number:06d}.safetensors"
                error.save(file)
                raise AgentGymError(f"iteration {number}: {error}, in another --out; the batch is in {file}") from error
            stats["credit/teacher_tokens"] += stats.pop("update/teacher_tokens", 0.0)
        self.iteration += 1
        if self.teacher is not None:
            self.teacher.follow(self.policy.model, self.iteration)
        if self.sampler is not None:
            self.sampler.follow(self.policy)
        seconds = time.perf_counter() - began
        tokens = sum(len(turn.output_ids or ()) for e in played.episodes for turn in e.turns[e.shared :])
        stats |= {"time/rollout_seconds": played.seconds, "time/seconds": seconds}
        stats |= {"time/sampled_tokens_per_second": tokens / max(played.seconds, 1e-9)}
        self.log.append("train", number, stats)
        run = self.recipe.run
        if self.iteration % run.save_every == 0 or self.iteration == run.iterations:
            folder = self.out / "checkpoints"
            progress = checkpoint.Progress(self.iteration, self._fingerprint)
            checkpoint.save(folder, progress, self.policy, self.optimiser, run.keep, self.teacher)
        bar.set_postfix(
            success=f"{stats.get('rollout/success', float('nan')):.2f}",
            reward=f"{stats.get('group/reward', float('nan')):.2f}",
            kl=f"{stats.get('update/ref_kl', 0.0):.4f}",
            tok_s=f"{stats['time/sampled_tokens_per_second']:.0f}",
        )

    def _play(self, number: int) -> Played:
        """The iteration's groups; where the method wants trees, the last members part from the first ones."""
        size, branching = self.recipe.rollout.group, self.method.branching
        later = 0 if branching is None else branching.members(size)
        played = self.player.play(number, size - later)
        if branching is None or later == 0:
            return played
        began, read = time.perf_counter(), self.scorer.tokens
        asked = [
            branching.branches(group, self.scorer.entropies(group, branching.top), later) for group in played.groups
        ]
        read = self.scorer.tokens - read
        answers = iter(self.player.play_on([request for part in asked for request in part], size - later))
        groups = tuple(
            Group(episodes=(*group.episodes, *(episode for _ in part for episode in next(answers))))
            for group, part in zip(played.groups, asked, strict=True)
        )
        return Played(groups, played.seconds + time.perf_counter() - began, read)

    # ---- credit --------------------------------------------------------------------------------------------------

    def _credit(self, played: Played, trials: Trials) -> tuple[list[TrainRow], dict[str, float]]:
        """Rows to train on, and what is worth logging."""
        episodes = played.episodes
        engine = self.policy.engine
        rows = [episode_rows(episode, engine.choices) for episode in episodes]
        audited = sum(
            audit(episode, part, self.agent.builder, engine.pieces)
            for episode, part in zip(episodes, rows, strict=True)
        )
        requests = [ScoreRequest(episode) for episode in episodes]
        old = _all_known(self.scorer.score(requests))
        scorer = self.scorer
        before = (scorer.tokens, scorer.hints, scorer.shortened, scorer.overflows)
        known = KnownScores(self.scorer, {id(episode): scores for episode, scores in zip(episodes, old, strict=True)})
        credits = credit_groups(self.method, played.groups, known, step=self.iteration, player=trials)
        advantages = [
            tokens
            for group, credit in zip(played.groups, credits, strict=True)
            for episode, tokens in zip(group.episodes, credit.table.token_advantages(group), strict=True)
            if episode.completed
        ]
        told = [
            (credit.targets.get(index), scorer.claim(credit.informed[index]) if index in credit.informed else None)
            for group, credit in zip(played.groups, credits, strict=True)
            for index, episode in enumerate(group.episodes)
            if episode.completed
        ]
        after = (scorer.tokens, scorer.hints, scorer.shortened, scorer.overflows)
        learns = any(values.any() for turns in advantages for values in turns) or any(any(pair) for pair in told)
        ref = self._reference_scores(requests) if learns else None  # steps that teach nothing are left out
        train = [
            item
            for number, episode in enumerate(episodes)
            for item in _train_rows(
                number,
                episode,
                rows[number],
                advantages[number],
                old[number],
                None if ref is None else ref[number],
                *told[number],
            )
        ]
        stats = pool([credit.stats for credit in credits]) | rollout_stats(played) | trials.stats
        names = ("credit/teacher_tokens", "hints/asked", "hints/shortened", "hints/dropped")
        stats |= {name: float(new - old) for name, new, old in zip(names, after, before, strict=True)}
        stats["credit/teacher_tokens"] += played.read
        stats["audit/sampled_ids"] = float(audited)
        drift = [
            abs(a - b)
            for episode, scores in zip(episodes, old, strict=True)
            for turn, values in zip(episode.turns, scores, strict=True)
            for a, b in zip(turn.output_logprobs or (), values.tolist(), strict=True)
        ]
        if drift:
            stats |= {"sampler/logprob_gap_mean": sum(drift) / len(drift), "sampler/logprob_gap_max": max(drift)}
        return train, stats

    def _eval_agent(self) -> EngineAgent:
        temperature = self.recipe.eval.temperature
        changed = {} if temperature is None else {"temperature": temperature}
        return EngineAgent(self.agent.engine, self.policy.settings.model_copy(update=changed))

    def _reference_scores(self, requests: Sequence[ScoreRequest]) -> list[TurnScores] | None:
        if self.recipe.update.kl_coef == 0:
            return None
        if self._adapted:
            with without_lora(self.policy.model):
                return _all_known(self.scorer.score(requests, self.policy.model))
        return _all_known(self.scorer.score(requests, self.reference))

    def _initial_weights(self) -> PreTrainedModel:
        """The initial policy, frozen; a copy of its own for each who asks."""
        if self.iteration == 0:
            return self.policy.frozen_copy()
        return Policy.load(self.recipe.policy.model, device=self.recipe.policy.device).frozen_copy()

    def _set_learning_rate(self) -> None:
        config = self.recipe.update
        done = max((float(state["step"]) for state in self.optimiser.state.values()), default=0.0)
        for group in self.optimiser.param_groups:
            group["lr"] = config.lr * min(1.0, (done + 1) / (config.warmup + 1))

    # ---- evaluation ----------------------------------------------------------------------------------------------

    def _evaluate(self, bar: tqdm[NoReturn]) -> None:
        """Plays the fixed panel with fixed seeds; results are kept by task, so that two runs compare in pairs."""
        file = self.out / "evaluations" / f"{self.iteration:06d}.jsonl"
        if self.log.has("eval", self.iteration):
            return
        bar.set_description("evaluating")
        self.policy.engine.forget()
        self.agent.engine.versions = {**self._versions, "iteration": str(self.iteration)}
        episodes = self.player.evaluate()
        bar.set_description("training")
        write_lines(file, (episode.to_json() for episode in episodes))
        completed = [episode for episode in episodes if episode.completed]
        stats = {"eval/episodes": float(len(completed)), "eval/broken": float(len(episodes) - len(completed))}
        if completed:
            stats |= outcome_stats("eval", completed)
            if self.recipe.run.keep_best and stats[self._measure] > self._best():
                checkpoint.save_best(self.out / "checkpoints", self.policy)
        self.log.append("eval", self.iteration, stats)

    def _tell_of_broken_episodes(self) -> None:
        """Says how many episodes broke, and where: they enter no number, so nothing else would show them."""
        for kind, key, folder in (("train", "rollout/broken", "rollouts"), ("eval", "eval/broken", "evaluations")):
            broken = {
                line["iteration"]: int(line[key]) for line in self.log.lines if line["kind"] == kind and line[key]
            }
            if broken:
                where = ", ".join(f"{number:06d}.jsonl ({count})" for number, count in broken.items())
                _LOGGER.warning(
                    "%d episodes broke and entered no number; their errors are in %s: %s",
                    sum(broken.values()),
                    self.out / folder,
                    where,
                )

    @property
    def _measure(self) -> str:
        """What the best policy is best at: the score where that is the reward, success otherwise."""
        reward = credit_options(self.recipe.method, self.recipe.credit_options).reward
        return "eval/score" if reward == "score" else "eval/success"

    def _best(self) -> float:
        """The best on the fixed panel so far."""
        return max((line.get(self._measure, -1.0) for line in self.log.lines if line["kind"] == "eval"), default=-1.0)


def _train_rows(
    number: int,
    episode: Episode,
    rows: list[Row],
    advantages: list[np.ndarray[tuple[int], np.dtype[np.float64]]],
    old: TurnScores,
    ref: TurnScores | None,
    teacher: TurnScores | None,
    informed: list[Row] | None,
) -> list[TrainRow]:
    """The rows of an episode with all that the loss needs, each cut to the row's turns."""
    found: list[TrainRow] = []
    contexts: Sequence[Row | None] = informed or [None] * len(rows)
    for row, told in zip(rows, contexts, strict=True):
        turns = sorted(set(row.turns.tolist()))

        def cut(values: Sequence[Sequence[float]], turns: list[int] = turns) -> torch.Tensor:
            return torch.tensor([value for turn in turns for value in values[turn]], dtype=torch.float32)

        # Turns that are another member's are trained on there.
        whole = [
            [turn >= episode.shared and episode.turns[turn].finish_reason != "length"] * len(old[turn])
            for turn in range(len(old))
        ]
        found.append(
            TrainRow(
                row=row,
                episode=number,
                advantages=cut([values.tolist() for values in advantages]),
                old=cut([values.tolist() for values in old]),
                sampler=cut([turn.output_logprobs or () for turn in episode.turns]),
                ref=None if ref is None else cut([values.tolist() for values in ref]),
                mask=cut(whole).bool(),
                teacher=None if teacher is None else cut([values.tolist() for values in teacher]),
                informed=told,
            )
        )
    return found


def _all_known(scores: Sequence[TurnScores | None]) -> list[TurnScores]:
    known = [score for score in scores if score is not None]
    if len(known) != len(scores):
        raise AgentGymError("an episode is longer than the policy's context; lower env.max_steps or use style=windowed")
    return known
