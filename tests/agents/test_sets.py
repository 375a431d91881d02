from __future__ import annotations

import pytest

from agentgym.agents.prompts import PROMPT_SETS, Step, Story, prompt_set
from agentgym.agents.prompts.sets import FORMAT
from agentgym.errors import UnknownNameError

PAST = [Step(f"room {number}", ("a", "b"), f"go {number}") for number in range(4)]
NOW = Step("room 4", ("take x", "look"))
HINT = "Somebody was here."


def story(steps: int, hint: str = HINT) -> Story:
    return Story("find x", (*PAST[:steps], NOW), hint)


def test_compact_shows_observations_as_they_are() -> None:
    texts = prompt_set("compact")
    assert texts.opening(story(0)) == f"room 4\n\n{HINT}"
    assert texts.opening(story(0, "")) == "room 4"
    assert texts.following(story(2)) == "room 4"
    assert texts.window(story(0), 2) == f"room 4\n\n{HINT}"
    assert texts.window(story(1), 2) == f"room 0\n> go 0\n\n{HINT}\n\nroom 4"
    assert texts.window(story(2), 2) == f"room 0\n> go 0\n\n{HINT}\n\nroom 1\n> go 1\n\nroom 4"
    # The first observation holds the task, so it stays when its step has left the window.
    assert texts.window(story(4), 2) == f"room 0\n\n{HINT}\n\nroom 2\n> go 2\n\nroom 3\n> go 3\n\nroom 4"
    assert texts.window(story(4, ""), 0) == "room 0\n\nroom 4"


def test_compact_tells_a_repeated_step_from_the_first_one() -> None:
    again = Step("room 0", ("a", "b"), "go 0")
    repeated = Story("find x", (PAST[0], PAST[1], again, NOW))
    assert prompt_set("compact").window(repeated, 1) == "room 0\n\nroom 0\n> go 0\n\nroom 4"


def test_plain_says_what_to_do() -> None:
    text = prompt_set("plain").opening(story(0))
    order = ["text environment", "goal: find x", "room 4", "- take x\n- look", HINT, FORMAT]
    assert sorted(order, key=text.index) == order and text.endswith(FORMAT)
    assert prompt_set("plain").following(story(2)) == "room 4\n\nActions you can take now:\n- take x\n- look"


def test_plain_window_numbers_the_steps() -> None:
    text = prompt_set("plain").window(story(4), 2)
    order = [
        "goal: find x",
        "taken 4 steps",
        "Step 3.",
        "room 2",
        "go 2",
        "Step 4.",
        "room 3",
        "Step 5.",
        "room 4",
        HINT,
    ]
    assert sorted(order, key=text.index) == order and text.endswith(FORMAT)
    assert "room 1" not in text and "go 1" not in text
    short = prompt_set("plain").window(story(4), 0)
    assert "taken 4 steps." in short and "room 3" not in short
    assert prompt_set("plain").window(story(1), 5).count("You did:") == 1


@pytest.mark.parametrize("name", sorted(PROMPT_SETS))
@pytest.mark.parametrize("steps", [0, 1, 4])
def test_without_a_hint_nothing_hints_at_one(name: str, steps: int) -> None:
    texts = prompt_set(name)
    with_hint, without = texts.window(story(steps), 2), texts.window(story(steps, ""), 2)
    assert with_hint.replace(f"{HINT}\n\n", "").replace(f"\n\n{HINT}", "") == without


def test_plain_copes_without_a_list_and_without_a_goal() -> None:
    texts = prompt_set("plain")
    assert "Actions you can" not in texts.opening(Story("find x", (Step("room"),)))
    text = texts.window(Story("", (PAST[0], PAST[1], Step("room 9"))), 1)
    assert "Your goal" not in text and "first observation was:\nroom 0" in text and "Actions" not in text


def test_unknown_sets_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'compact'"):
        prompt_set("compct")


@pytest.mark.parametrize(
    ("name", "asks", "leaves_out"),
    [
        ("react", "Thought: ", "no reasoning"),
        ("act", "no reasoning", "Thought"),
        ("plain", "Think briefly", "Thought: "),
    ],
)
def test_what_the_instructed_sets_ask_for(name: str, asks: str, leaves_out: str) -> None:
    texts = prompt_set(name)
    for text in (texts.opening(story(0)), texts.window(story(4), 2)):
        assert asks in text and leaves_out not in text and "</action>" in text
        assert text.index("take x") < text.index(HINT) < text.index(asks)
    # The request to answer is made once in a growing conversation.
    assert texts.following(story(2)) == prompt_set("plain").following(story(2))


def test_verl_alfworld_has_the_order_of_its_model() -> None:
    texts = prompt_set("verl_alfworld")
    help_too = Step("room 4. Your task is to: find x", ("help", "take x", "look"))
    first = texts.opening(Story("find x", (help_too,), HINT))
    order = ["expert", "ALFRED", "task is to: find x", "['take x',\n'look']", HINT, "<think> </think>", "<action> "]
    assert (
        sorted(order, key=first.index) == order
        and "help" not in first
        and first == texts.window(Story("find x", (help_too,), HINT), 2)
    )
    later = texts.window(story(4), 2)
    order = [
        "expert",
        "Your task is: find x",
        "taken 4 step(s)",
        "[Observation 3] room 2\n[Action 3] go 2",
        "[Observation 4] room 3\n[Action 4] go 3",
        "at step 5",
        "room 4",
        "['take x',\n'look']",
        HINT,
        "<think> </think>",
        "<action> </action>",
    ]
    assert sorted(order, key=later.index) == order and "room 1" not in later
    assert "[Observation" not in texts.window(story(4), 0)
    assert texts.following(story(4)).endswith(
        "room 4\n\nYour admissible actions in this situation are: ['take x',\n'look']."
    )
    assert "admissible actions in" not in texts.opening(Story("find x", (Step("room"),)))
