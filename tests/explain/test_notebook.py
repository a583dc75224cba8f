"""A plan shows itself: short in a console, with its table and picture in a notebook, and as files."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import poolcli
from poolcli import AvgPool, MaxPool

AVG = AvgPool((3, 5), strides=2, pads_begin=(1, 2), pads_end=(1, 0), exclude_pad=False)


def test_a_plan_is_one_line_in_a_console() -> None:
    plan = MaxPool(2, strides=2, like="pytorch").plan((1, 3, 8, 6), "uint8")
    assert repr(plan) == "<Plan of max pooling, like pytorch: N=1 C=3 H=8 W=6 uint8 to N=1 C=3 H=4 W=3 uint8>"
    assert repr(plan.picture()) == "<Picture of max pooling, as PyTorch: H=8 W=6 to H=4 W=3>"


def test_in_a_notebook_it_is_its_picture() -> None:
    plan = AVG.plan((1, 3, 6, 8))
    assert plan._repr_svg_() == plan.picture().svg() == plan.picture()._repr_svg_()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("plan.gif", {}, "picture='plan.gif' must end in .svg or .html"),
        ("there.svg", {}, "there.svg exists; use overwrite=True to replace it"),
    ],
)
def test_python_is_told_in_its_own_words(
    name: str, options: dict[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.svg").write_text("kept")
    with pytest.raises(poolcli.PoolError) as refused:
        AVG.plan((1, 3, 6, 8)).picture(name, **options)  # type: ignore[arg-type]  # words of several options
    assert str(refused.value) == message
    assert [path.name for path in tmp_path.iterdir()] == ["there.svg"]


def test_a_plan_goes_from_process_to_process() -> None:
    plan = AVG.plan((1, 3, 6, 8))
    assert pickle.loads(pickle.dumps(plan)) == plan  # noqa: S301  # it is made here
    assert plan.given == AVG
