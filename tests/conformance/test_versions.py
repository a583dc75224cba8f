"""The table of versions that deviate, against the versions themselves: they are installed beside the tests."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poolcli import AvgPool, LpPool, MaxPool
from poolcli.engine import run
from poolcli.errors import RequestError
from poolcli.explain.compare_dialects import DEVIATIONS, WHOLE, Deviation, compare_dialects, deviations, sentences
from poolcli.plan import Plan, make_plan
from tests.models.onnxs import model, node
from tests.profiles import sized

OPSETS = (10, 18, 19, 22)
RUN = """
import json, sys
from pathlib import Path
import numpy as np, onnxruntime
onnxruntime.set_default_logger_severity(4)
off, options = {}, onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
for path in sorted(Path(sys.argv[1]).glob("*.onnx")):
    data = np.load(path.with_suffix(".npz"))
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception:
        continue  # an opset that this version does not know
    found = session.run(None, {"x": data["x"]})[0]
    off[path.stem] = found.shape != data["y"].shape or not np.allclose(found, data["y"], 1e-4, 1e-5)
print(json.dumps(off))
"""


def plans() -> Iterator[tuple[Plan, str, dict[str, Any], int]]:
    """Poolings that ONNX Runtime computes: the plan, the node type, its attributes and the opset."""
    pads = ("0", "1", "SAME_UPPER", "SAME_LOWER", "VALID")
    records = {"AveragePool": AvgPool, "MaxPool": MaxPool, "LpPool": LpPool}
    for kind, opset, ceil, pad, (kernel, stride), included, size in itertools.product(
        records, OPSETS, (0, 1), pads, ((3, 2), (2, 2), (2, 3), (3, 3)), (0, 1), (7, 8)
    ):
        if (included and kind != "AveragePool") or (kind == "LpPool" and opset < 18 and ceil):
            continue
        attributes: dict[str, Any] = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2}
        attributes |= {"pads": [int(pad)] * 4} if pad.isdigit() else {"auto_pad": pad}
        attributes |= {"ceil_mode": 1} if ceil else {}
        attributes |= {"count_include_pad": included} if kind == "AveragePool" else {}
        given: dict[str, Any] = {"like": "onnx", "strides": stride, "rounding_type": "ceil" if ceil else "floor"}
        given |= {"pads_begin": int(pad), "pads_end": int(pad)} if pad.isdigit() else {"auto_pad": pad.lower()}
        given |= {"exclude_pad": not included} if kind == "AveragePool" else {}
        try:
            plan = make_plan(records[kind](kernel, **given), (1, 2, size, size), "float32")
        except RequestError:
            continue
        yield plan, kind, attributes, opset


def below(version: str, other: str) -> bool:
    return [*map(int, version.split("."))] < [*map(int, other.split("."))]


def deviates(row: Deviation, version: str, plan: Plan, opset: int) -> bool:
    since, _, fixed = row.versions.rpartition("before ")
    new = bool(since) and below(version, since.split()[0])
    return not new and below(version, fixed) and opset in row.opsets and row.holds(plan)


def installed(package: str, version: str, folder: Path) -> Path:
    """A folder with that version of a package; skips where it cannot be had."""
    uv = shutil.which("uv")
    install = [uv, "pip", "install", "--python", sys.executable] if uv else [sys.executable, "-m", "pip", "install"]
    done = subprocess.run(
        [*install, "--no-deps", "--target", str(folder), f"{package}=={version}"], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"{package} {version} cannot be installed: {done.stderr.strip().splitlines()[-1:]}")
    return folder


def ran(script: str, models: Path, runtime: Path) -> Any:
    """What a script prints that runs the models with a version of a runtime."""
    paths = os.pathsep.join([str(runtime), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": paths}
    done = subprocess.run([sys.executable, "-c", script, str(models)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, tuple[Plan, int]]]:
    """A folder with a model of each pooling and its input and output, and the plans and opsets by their names."""
    folder, cases = tmp_path_factory.mktemp("models"), {}
    for number, (plan, kind, attributes, opset) in enumerate(plans()):
        x = np.random.default_rng(number).standard_normal(plan.input_shape).astype(np.float32)
        model(folder / f"{number}.onnx", [node(kind, **attributes)], plan.input_shape, opset)
        np.savez(folder / f"{number}.npz", x=x, y=run(plan, x)[0])
        cases[str(number)] = (plan, opset)
    return folder, cases


@pytest.mark.slow
@pytest.mark.parametrize("version", sized(["1.24.4"], ["1.20.1", "1.21.0", "1.24.4", "1.25.0", "1.28.0", "1.29.0"]))
def test_each_version_deviates_where_the_table_says_and_nowhere_else(
    version: str, models: tuple[Path, dict[str, tuple[Plan, int]]], tmp_path: Path
) -> None:
    folder, cases = models
    found = ran(RUN, folder, installed("onnxruntime", version, tmp_path / "runtime"))
    assert len(found) > 300
    said = {number: any(deviates(row, version, *cases[number]) for row in DEVIATIONS) for number in found}
    assert found == said


def test_a_deviation_is_cited_where_it_applies() -> None:
    op = AvgPool(3, strides=2, rounding_type="ceil", exclude_pad=False, like="onnx")
    plan = make_plan(op, (1, 1, 4, 4))
    told = [
        f"ONNX Runtime before 1.29, opset 18 or lower: {WHOLE}",
        f"ONNX Runtime before 1.21, opset 19 or higher: {WHOLE}",
    ]
    assert deviations(plan) == told
    assert deviations(plan, 11) == told[:1]
    assert deviations(plan, 22) == told[1:]
    assert deviations(make_plan(op, (1, 1, 5, 5))) == []  # no window overhangs
    cited = [each for each in sentences(compare_dialects(op, plan)) if "Runtime" in each]
    assert cited == told
