from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from agentgym.errors import ConfigError, DataError, UnknownNameError
from agentgym.trainers.config import Recipe, UpdateSection, check, read_recipe, read_tree
from agentgym.trainers.sft import SftRecipe

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
GOOD = """
[env]
name = "guess"
split = "easy"
eval_split = "hard"
[policy]
model = "some/folder"
[policy.settings]
temperature = 0.7
[credit]
method = "sharpo"
lam = 0.1
[run]
iterations = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(GOOD)
    return path


def test_the_environment_has_options_of_its_own(file: Path) -> None:
    recipe = read_recipe(file, ("env.options.families=heat,cool", "env.max_steps=7"))
    assert recipe.env.made_with == {"families": "heat,cool", "max_steps": 7}
    with pytest.raises(ConfigError, match=r"\[env\.options\] holds max_steps"):
        _ = read_recipe(file, ("env.options.max_steps=3",)).env.made_with


def test_defaults_fill_in_the_rest(file: Path) -> None:
    recipe = read_recipe(file)
    assert recipe.method == "sharpo" and recipe.credit_options == {"lam": 0.1}
    assert recipe.policy.settings == {"temperature": 0.7}
    assert (recipe.rollout.group, recipe.update.clip_low, recipe.eval.limit, recipe.run.keep) == (8, 0.2, None, 2)
    assert Recipe.model_validate(recipe.model_dump(mode="json")) == recipe


@pytest.mark.parametrize("path", sorted(RECIPES.rglob("*.toml")), ids=lambda path: str(path.stem))
def test_the_recipes_that_come_along_are_right(path: Path) -> None:
    tree = read_tree(path, ())
    if "credit" in tree:
        assert read_recipe(path).run.iterations >= 1
    else:
        assert check(SftRecipe, tree, path).train.tokens >= 1


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("updat.lr=1", r"key in \[recipe.toml\] 'updat': did you mean 'update'"),
        ("update.leraning_rate=1", r"key in \[update\] 'leraning_rate'"),
        ("update.lrr=1", r"key in \[update\] 'lrr': did you mean 'lr'"),
        ("env.spilt='x'", r"key in \[env\] 'spilt': did you mean 'split'"),
        ("policy.modle='x'", r"key in \[policy\] 'modle': did you mean 'model'"),
        ("rollout.groups=4", r"key in \[rollout\] 'groups': did you mean 'group'"),
        ("eval.evry=4", r"key in \[eval\] 'evry': did you mean 'every'"),
        ("run.iteration=4", r"key in \[run\] 'iteration': did you mean 'iterations'"),
        ("credit.lamda=0.1", r"option of credit method 'sharpo' 'lamda': did you mean 'lam'"),
        ("credit.method=grpoo", r"credit method 'grpoo': did you mean 'grpo'"),
        ("credit.method=3", r"credit method '3'"),
    ],
)
def test_unknown_keys_are_named_with_the_nearest(file: Path, override: str, says: str) -> None:
    with pytest.raises(UnknownNameError, match=says):
        read_recipe(file, [override])


def test_a_misspelt_key_is_named_rather_than_the_one_it_leaves_missing(file: Path) -> None:
    file.write_text(GOOD.replace("iterations", "iteration"))
    with pytest.raises(UnknownNameError, match="did you mean 'iterations'"):
        read_recipe(file)


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("update.lr=-1", "recipe.toml: update.lr: .*greater than 0"),
        ("update.lr=fast", "update.lr"),
        ("update.lr=nan", "update.lr"),
        ("update.clip_low=1.5", "update.clip_low"),
        ("update.aggregation=mean", "update.aggregation: .*'token_mean'"),
        ("rollout.group=0", "rollout.group"),
        ("rollout.group=2.5", "rollout.group"),
        ("env.max_steps=0", "env.max_steps"),
        ("run.iterations=0", "run.iterations"),
        ("run.seed=-1", "run.seed"),
        ("run.keep=0", "run.keep"),
        ("eval.every=0", "eval.every"),
        ("credit.lam=2", "'lam'"),
        ("env=3", "recipe.toml: env"),
        ("credit=3", "recipe.toml: credit"),
        ("policy.settings=3", "policy.settings"),
    ],
)
def test_values_out_of_range(file: Path, override: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read_recipe(file, [override])


@pytest.mark.parametrize(
    ("override", "says", "beside"),
    [
        (
            "policy.lora.alpha=8.0",
            r"policy\.lora: alpha = 8\.0 .*a rank above 0 alone; leave alpha out",
            "policy.lora.rank=4",
        ),
        ("policy.lora.layers=['q_proj']", r"policy\.lora: layers = .*; leave layers out", "policy.lora.rank=4"),
        ("rollout.vllm.dtype=float32", r"rollout: vllm = .*sampler = \"vllm\" alone; leave", "rollout.sampler=vllm"),
        ("credit.teacher_refresh=3", r'teacher_refresh = 3 .*teacher = "stale" alone; leave', "credit.teacher=stale"),
        ("credit.teacher_ema=0.2", r'teacher_ema = 0\.2 .*teacher = "ema" alone; leave', "credit.teacher=ema"),
    ],
)
def test_what_nothing_would_read_is_refused(file: Path, override: str, says: str, beside: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read_recipe(file, [override])
    assert Recipe.model_validate(read_recipe(file, [override, beside]).model_dump(mode="json"))


@pytest.mark.parametrize(
    ("method", "teacher", "override"),
    [("opsd", "reference", "teacher_ema=0.2"), ("step_opsd", "current", "teacher_refresh=3")],
)
def test_the_option_of_another_teacher_is_refused(file: Path, method: str, teacher: str, override: str) -> None:
    file.write_text(GOOD.replace('method = "sharpo"', f'method = "{method}"').replace("lam = 0.1", ""))
    with pytest.raises(ConfigError, match=r"is read with teacher = .* alone; leave teacher_"):
        read_recipe(file, [f"credit.teacher={teacher}", f"credit.{override}"])
    read_recipe(file, [f"credit.teacher={teacher}"])


def test_a_default_that_nothing_reads_may_stand(file: Path) -> None:
    """A recipe that extends another one, or an override, can take a value back so."""
    read_recipe(file, ["policy.lora.rank=0", "policy.lora.alpha=32", "credit.teacher_ema=0.05", "rollout.vllm={}"])


@pytest.mark.parametrize("table", ["env", "policy", "credit", "run"])
def test_a_missing_table_is_named(file: Path, table: str) -> None:
    tree = {key: value for key, value in read_tree(file, ()).items() if key != table}
    with pytest.raises(ConfigError, match=f"{table}: Field required"):
        check(Recipe, tree, file)


def test_a_method_must_be_named(file: Path) -> None:
    file.write_text(GOOD.replace('method = "sharpo"', "").replace("lam = 0.1", ""))
    with pytest.raises(ConfigError, match="names no method"):
        read_recipe(file)


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("run.iterations=7", ("run", "iterations"), 7),
        ("policy.model=builtin:tiny", ("policy", "model"), "builtin:tiny"),
        ('policy.model="a b"', ("policy", "model"), "a b"),
        ("policy.settings.temperature=0.5", ("policy", "settings", "temperature"), 0.5),
        ("policy.model=a=b", ("policy", "model"), "a=b"),
        ("update.lr=1e-3", ("update", "lr"), 1e-3),
        ("env.data=", ("env", "data"), ""),
    ],
)
def test_overrides(file: Path, override: str, key: tuple[str, ...], value: object) -> None:
    found: Any = read_recipe(file, [override]).model_dump()
    for part in key:
        found = found[part]
    assert found == value


def test_the_last_override_counts_and_none_changes_the_file(file: Path) -> None:
    assert read_recipe(file, ["run.seed=1", "run.seed=2"]).run.seed == 2
    assert file.read_text() == GOOD


@pytest.mark.parametrize("override", ["nonsense", "=3", ""])
def test_an_override_needs_key_and_value(file: Path, override: str) -> None:
    with pytest.raises(ConfigError, match=r"write --set table\.key=value"):
        read_recipe(file, [override])
    with pytest.raises(ConfigError, match="name is a value, not a table"):
        read_recipe(file, ["env.name.x=3"])


@pytest.mark.parametrize("text", ["[env", "x = ", "\x00", "[env]\n[env]\n", "just words"])
def test_what_is_not_toml_is_refused(file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(DataError, match=r"recipe\.toml: not a TOML file"):
        read_recipe(file)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.toml: cannot be read"):
        read_recipe(tmp_path / "nowhere.toml")
    with pytest.raises(DataError, match="cannot be read"):
        read_recipe(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b'[env]\nname = "caf\xe9"\n')
    with pytest.raises(DataError, match="not a TOML file"):
        read_recipe(tmp_path / "latin.toml")


def test_a_recipe_says_what_it_has_otherwise_than_another(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "base.toml").write_text(
        '[env]\nname = "guess"\nsplit = "hard"\neval_split = "easy"\n[policy]\nmodel = "x"\n'
        '[credit]\nmethod = "sharpo"\nlam = 0.5\nclip = 0.1\n[run]\niterations = 3\n'
    )
    (tmp_path / "folder/arm.toml").write_text('extends = "../base.toml"\n[credit]\nlam = 0.1\n[run]\nseed = 4\n')
    arm = read_recipe(tmp_path / "folder/arm.toml", ["run.iterations=5"])
    assert arm.credit == {"method": "sharpo", "lam": 0.1, "clip": 0.1}
    assert (arm.run.iterations, arm.run.seed, arm.env.split) == (5, 4, "hard")
    # Options of one method mean nothing to another.
    (tmp_path / "other.toml").write_text('extends = "base.toml"\n[credit]\nmethod = "grpo"\n')
    assert read_recipe(tmp_path / "other.toml").credit == {"method": "grpo"}

    (tmp_path / "loop.toml").write_text('extends = "folder/../loop.toml"\n')
    with pytest.raises(DataError, match="which extends it"):
        read_recipe(tmp_path / "loop.toml")
    (tmp_path / "number.toml").write_text("extends = 3\n")
    with pytest.raises(ConfigError, match="not a file name"):
        read_recipe(tmp_path / "number.toml")
    (tmp_path / "lost.toml").write_text('extends = "nowhere.toml"\n')
    with pytest.raises(DataError, match=r"nowhere\.toml: cannot be read"):
        read_recipe(tmp_path / "lost.toml")


def test_the_size_of_an_optimiser_step() -> None:
    assert [UpdateSection(minibatches=4).steps(rows) for rows in (1, 3, 4, 100)] == [1, 3, 4, 4]
    assert [UpdateSection(minibatch_rows=64).steps(rows) for rows in (1, 64, 65, 1000)] == [1, 1, 2, 16]
    with pytest.raises(ValidationError, match="keep one"):
        UpdateSection(minibatches=2, minibatch_rows=64)


def test_a_recipe_that_lacks_a_table_or_a_key_is_told_what(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text("")
    with pytest.raises(ConfigError, match=r"recipe\.toml: env: Field required; the folder recipes/ has examples"):
        read_recipe(tmp_path / "recipe.toml")
    (tmp_path / "recipe.toml").write_text('[env]\nname = "guess"\nsplit = "easy"\n')
    with pytest.raises(ConfigError, match=r"recipe\.toml: env\.eval_split: Field required"):
        read_recipe(tmp_path / "recipe.toml")
