from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.errors import ConfigError, UnknownNameError
from agentgym.task import Panel, Task

ids = st.lists(st.text(min_size=1, max_size=6), min_size=2, max_size=8, unique=True)


def panel(names: list[str]) -> Panel:
    return Panel("e", "s", tuple(Task(name, "f", f"digest of {name}") for name in names))


@given(ids)
def test_the_hash_depends_on_order_ids_and_content(names: list[str]) -> None:
    whole = panel(names)
    assert whole.hash == panel(names).hash
    assert whole.hash != panel(names[::-1]).hash
    assert whole.hash != whole[1:].hash
    changed = (dataclasses.replace(whole[0], digest="another"), *whole.tasks[1:])
    assert whole.hash != Panel("e", "s", changed).hash
    renamed = (dataclasses.replace(whole[0], id=names[0] + "'" + "".join(names)), *whole.tasks[1:])
    assert whole.hash != Panel("e", "s", renamed).hash


@given(ids)
def test_a_task_is_found_by_id_index_or_itself(names: list[str]) -> None:
    whole = panel(names)
    for position, task in enumerate(whole):
        assert whole.index(task.id) == whole.index(position) == whole.index(task) == position


def test_slices_are_panels() -> None:
    part = panel(["a", "b", "c"])[:2]
    assert isinstance(part, Panel) and [task.id for task in part] == ["a", "b"] and len(part) == 2


@pytest.mark.parametrize("wrong", ["kitchen-2", 3, -1, 1.5, None])
def test_unknown_tasks(wrong: object) -> None:
    with pytest.raises(UnknownNameError, match="task in e/s"):
        panel(["kitchen-1", "b", "c"]).index(wrong)


def test_the_nearest_task_is_suggested() -> None:
    with pytest.raises(UnknownNameError) as caught:
        panel(["kitchen-1", "b"]).index("kitchn-1")
    assert caught.value.suggestion == "kitchen-1"


def test_a_task_id_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="twice"):
        panel(["a", "a"])
