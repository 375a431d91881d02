from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.agents.engines import ChoiceEncoder
from agentgym.errors import ConfigError

END = 0
COMMANDS = ("go to shelf 1", "go to shelf 10", "go to desk 1", "look")


def letters(text: str) -> list[int]:
    return [ord(letter) for letter in text]


ENCODER = ChoiceEncoder(letters, END)


def test_the_trie_holds_exactly_the_choices() -> None:
    def outputs(node: dict[int, object], before: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
        if not node:
            return [before]
        return [leaf for token, below in node.items() for leaf in outputs(below, (*before, token))]  # type: ignore[arg-type]

    trie = ENCODER.trie((*COMMANDS, "look"))
    assert sorted(outputs(trie)) == sorted(ENCODER.ids(command) for command in COMMANDS)  # type: ignore[arg-type]
    assert ENCODER.ids("look") == (*letters("<action>look</action>"), END)


@given(st.lists(st.text(max_size=6), min_size=1, max_size=6), st.data())
def test_allowed_sets_are_those_that_lead_to_a_choice(commands: list[str], data: st.DataObject) -> None:
    command = data.draw(st.sampled_from(commands))
    output = ENCODER.ids(command)
    allowed = ENCODER.allowed(commands, output)
    for position, found in enumerate(allowed):
        expected = {ids[position] for ids in map(ENCODER.ids, commands) if ids[:position] == output[:position]}
        assert found == sorted(expected) and output[position] in found


def test_a_command_that_begins_another_ends_by_its_tag() -> None:
    output = ENCODER.ids("go to shelf 1")
    position = len(letters("<action>go to shelf 1"))
    assert ENCODER.allowed(COMMANDS, output)[position] == sorted([ord("0"), ord("<")])


@pytest.mark.parametrize("output", ["<action>go to bed", "look", "<action>look</action> and more"])
def test_an_output_that_leaves_the_trie_is_refused(output: str) -> None:
    with pytest.raises(ConfigError, match="not allowed by the recorded restriction"):
        ENCODER.allowed(COMMANDS, (*letters(output), END))
    with pytest.raises(ConfigError, match="position 0"):
        ENCODER.allowed(COMMANDS, (7,))


def test_there_must_be_a_choice() -> None:
    with pytest.raises(ConfigError, match="at least one"):
        ENCODER.trie(())
