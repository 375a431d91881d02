"""Finds the best documents of a query: the same list, in the same order, as Lucene 8.11 gives.

A document's score is the sum of the contributions of its terms in double precision, rounded once; equal scores are
ordered by id. Long lists are not scored in full: once the best of some candidates are known, documents that hold only
common terms and cannot reach them are left out (MaxScore: H. Turtle and J. Flood, Query evaluation: strategies and
optimizations, Information Processing & Management 31(6), 1995). Bounds are widened, so that no tie is lost.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .analyzer import analyze
from .index import Floats, Index, Ints

BEST = 50
"""Documents in a result list."""

MOST_TERMS = 1024
"""Distinct terms that a query may have."""

RESULTS_KEPT = 4096
"""Result lists kept in memory; then all are forgotten."""

_LONG = 2_000  # characters above which a query's results are not kept
_SHORT = 30_000  # postings below which every document is scored
_CANDIDATES = 4 * BEST  # documents that are scored in full to learn how good the best are
_PROBE = 8  # how many postings can be added in the time of looking one up
_WIDER, _LOWER = 1.000001, 1 - 1e-6

Postings = tuple[Ints, Floats, float]
"""Documents of a term, what they gain from it, and the most that any gains."""


class TooManyTermsError(ValueError):
    """A query of more than `MOST_TERMS` distinct terms, which the original's engine refuses."""


class Hits(NamedTuple):
    """A result list, best first.

    Attributes:
        documents: positions of the documents.
        scores: their scores.
    """

    documents: tuple[int, ...]
    scores: tuple[float, ...]


class Searcher:
    """Searches an index and keeps result lists, so that turning pages and repeated queries cost nothing.

    Args:
        index: what to search.
        short: queries with fewer postings are scored in full.
    """

    def __init__(self, index: Index, *, short: int = _SHORT) -> None:
        self._index = index
        self._short = short
        self._results: dict[tuple[str, bool], Hits] = {}

    def search(self, query: str, *, cut: bool = False) -> Hits:
        """The best documents of a query.

        Args:
            query: any text.
            cut: of a query with too many terms, use the first ones.

        Raises:
            TooManyTermsError: if the query has too many distinct terms and is not to be cut.
        """
        found = self._results.get((query, cut))
        if found is None:
            found = self._search(query, cut)
            if len(query) > _LONG:
                return found
            if len(self._results) >= RESULTS_KEPT:
                self._results.clear()
            self._results[query, cut] = found
        return found

    def _search(self, query: str, cut: bool) -> Hits:
        counts = Counter(analyze(query))
        if len(counts) > MOST_TERMS:
            if not cut:
                raise TooManyTermsError(f"the query has {len(counts)} distinct terms; {MOST_TERMS} are allowed")
            counts = Counter(dict(list(counts.items())[:MOST_TERMS]))
        index = self._index
        lists: list[Postings] = []
        for term, count in counts.items():
            number = index.terms.get(term)
            if number is not None:
                documents = index.documents[index.starts[number] : index.starts[number + 1]]
                gains = index.contribution(number, count)
                most = index.highest[number] if count == 1 else gains.max()
                lists.append((documents, gains, float(most)))
        if not lists:
            return Hits((), ())
        if sum(len(documents) for documents, _, _ in lists) <= self._short:
            scores = np.zeros(index.size)
            for documents, gains, _ in lists:
                scores[documents] += gains
            return self._best(np.flatnonzero(scores), scores)
        return self._pruned(lists)

    def _pruned(self, lists: list[Postings]) -> Hits:
        """Scores only documents that can be among the best."""
        lists = sorted(lists, key=lambda one: len(one[0]))
        # What a document can gain from this list and the longer ones.
        bounds = np.cumsum([most for _, _, most in reversed(lists)])[::-1] * _WIDER
        scores = np.zeros(self._index.size)
        found: list[Ints] = []
        least = 0.0
        done = 0
        while done < len(lists) and (least == 0.0 or bounds[done] >= least):
            documents, gains, _ = lists[done]
            scores[documents] += gains
            found.append(documents)
            done += 1
            if least == 0.0 and sum(map(len, found)) >= _CANDIDATES:
                least = self._threshold(np.concatenate(found), scores, lists[done:])
        if done == len(lists):
            return self._best(np.flatnonzero(scores >= least if least else scores), scores)
        candidates = np.flatnonzero(scores >= least - bounds[done])
        _probe(lists[done], candidates, scores)
        for number in range(done + 1, len(lists)):
            candidates = candidates[scores[candidates] + bounds[number] >= least]
            _probe(lists[number], candidates, scores)
        return self._best(candidates, scores)

    def _threshold(self, candidates: Ints, scores: NDArray[np.float64], rest: list[Postings]) -> float:
        """A score that at least `BEST` documents reach; 0 if there are not so many yet. Candidates may come twice."""
        kept = min(_CANDIDATES, len(candidates))
        some = np.unique(candidates[np.argpartition(scores[candidates], -kept)[-kept:]])
        if len(some) < BEST:
            return 0.0
        full = scores[some]
        for documents, gains, _ in rest:
            places = np.minimum(np.searchsorted(documents, some), len(documents) - 1)
            full = full + np.where(documents[places] == some, gains[places], 0)
        return float(np.partition(full, -BEST)[-BEST]) * _LOWER

    def _best(self, documents: NDArray[np.integer], scores: NDArray[np.float64]) -> Hits:
        values = scores[documents].astype(np.float32)
        if len(documents) > BEST:
            # All that tie with the last one stay, for the order of ids to decide.
            kept = values >= np.partition(values, -BEST)[-BEST]
            documents, values = documents[kept], values[kept]
        order = np.lexsort((self._index.ranks[documents], -values))[:BEST]
        return Hits(tuple(documents[order].tolist()), tuple(values[order].tolist()))


def _probe(postings: Postings, candidates: NDArray[np.intp], scores: NDArray[np.float64]) -> None:
    """Adds a list's contributions to the scores of some documents, given in ascending order.

    For many documents it is faster to add the whole list; what the others then have no longer matters.
    """
    documents, gains, _ = postings
    if len(candidates) * _PROBE > len(documents):
        scores[documents] += gains
        return
    places = np.minimum(np.searchsorted(documents, candidates), len(documents) - 1)
    held = documents[places] == candidates
    scores[candidates[held]] += gains[places[held]]
