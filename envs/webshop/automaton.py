"""Longest matches of a regular language over classes of characters.

A rule is built of `Symbol`, `Sequence`, `Choice` and `Many`; an `Automaton` finds the longest string that any rule
derives, which the alternatives of a backtracking engine do not. States are made deterministic when first met.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

Kind = frozenset[str]
"""What a character is: the names of its classes."""


@dataclass(frozen=True)
class Symbol:
    """One character that has some class of ``any_of`` and none of ``none_of``."""

    any_of: Kind
    none_of: Kind = frozenset()


@dataclass(frozen=True)
class Chain:
    """One part after the other."""

    parts: tuple[Rule, ...]


@dataclass(frozen=True)
class Choice:
    """Any one of the parts."""

    parts: tuple[Rule, ...]


@dataclass(frozen=True)
class Many:
    """The part, any number of times."""

    part: Rule


Rule = Symbol | Chain | Choice | Many


def symbol(*names: str, but: Iterable[str] = ()) -> Symbol:
    """A character of one of the named classes."""
    return Symbol(frozenset(names), frozenset(but))


def chain(*parts: Rule) -> Chain:
    """One part after the other."""
    return Chain(parts)


def choice(*parts: Rule) -> Choice:
    """Any one of the parts."""
    return Choice(parts)


def many(part: Rule) -> Many:
    """The part, any number of times."""
    return Many(part)


def some(part: Rule) -> Chain:
    """The part, at least once."""
    return Chain((part, Many(part)))


def maybe(part: Rule) -> Choice:
    """The part, or nothing."""
    return Choice((part, Chain(())))


class Automaton:
    """Finds longest matches.

    Args:
        rule: what to match.
        kind_of: the classes of a character.
    """

    def __init__(self, rule: Rule, kind_of: Callable[[str], Kind]) -> None:
        self._kind_of = kind_of
        self._empty: list[list[int]] = []
        self._steps: list[tuple[Symbol, int] | None] = []
        start, self._end = self._build(rule)
        self._states: dict[frozenset[int], int] = {}
        self._members: list[frozenset[int]] = []
        self._accepting: list[bool] = []
        # Per state: character -> next state, or -1.
        self._moves: list[dict[str, int]] = []
        self._by_kind: dict[tuple[int, Kind], int] = {}
        self._start = self._state({start})

    def longest(self, text: str, start: int, room: int) -> int:
        """End of the longest match.

        Args:
            text: where to look.
            start: first character of the match.
            room: UTF-16 code units that the match may take.

        Returns:
            One past its last character; ``start`` if nothing matches.
        """
        state, end = self._start, start
        for position in range(start, len(text)):
            char = text[position]
            room -= 2 if char > "\uffff" else 1
            if room < 0:
                break
            following = self._moves[state].get(char)
            if following is None:
                following = self._move(state, char)
            if following < 0:
                break
            state = following
            if self._accepting[state]:
                end = position + 1
        return end

    def _move(self, state: int, char: str) -> int:
        kind = self._kind_of(char)
        following = self._by_kind.get((state, kind))
        if following is None:
            reached = set()
            for member in self._members[state]:
                step = self._steps[member]
                if step is not None and kind & step[0].any_of and not kind & step[0].none_of:
                    reached.add(step[1])
            following = self._by_kind[state, kind] = self._state(reached) if reached else -1
        self._moves[state][char] = following
        return following

    def _state(self, members: set[int]) -> int:
        """The deterministic state of some nodes and all that is reached from them without a character."""
        waiting = list(members)
        closed = set(members)
        while waiting:
            for node in self._empty[waiting.pop()]:
                if node not in closed:
                    closed.add(node)
                    waiting.append(node)
        key = frozenset(closed)
        if key not in self._states:
            self._states[key] = len(self._members)
            self._members.append(key)
            self._accepting.append(self._end in key)
            self._moves.append({})
        return self._states[key]

    def _node(self) -> int:
        self._empty.append([])
        self._steps.append(None)
        return len(self._empty) - 1

    def _build(self, rule: Rule) -> tuple[int, int]:
        """Thompson's construction: the entry and exit node of a rule."""
        start, end = self._node(), self._node()
        if isinstance(rule, Symbol):
            self._steps[start] = (rule, end)
        elif isinstance(rule, Chain):
            last = start
            for part in rule.parts:
                entry, last_of_part = self._build(part)
                self._empty[last].append(entry)
                last = last_of_part
            self._empty[last].append(end)
        elif isinstance(rule, Choice):
            for part in rule.parts:
                entry, leave = self._build(part)
                self._empty[start].append(entry)
                self._empty[leave].append(end)
        else:
            entry, leave = self._build(rule.part)
            self._empty[start] += (entry, end)
            self._empty[leave] += (entry, end)
        return start, end
