"""Checks of docs/reference/json.md: the keys of each table are those that the commands print."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np

from tests.documents.checks import plain, table_of
from tests.documents.console import typed
from tests.documents.markdown import Table

MODEL = "samples/backbone.xml"
FEATURES = "samples/features.npy"
POOLED = f"max {FEATURES} -o pooled.npy -k 3 -s 2 -p 1 -q"
COUNTED = f"avg {FEATURES} -o counted.npy -k 3 -s 2 -p 1 --include-pad -q"
LINES = {  # of each table: lines that prepare, and lines that together print every key
    "pooling": ([], [f"max {FEATURES} -o y.npy -k 2 --indices at.npy", "avg none.npy -o y.npy -k 2",
                     "shape adaptive-avg 1,3,7 --output-size 3"]),
    "errors": ([], ["shape avg 1,3,3,3 -k 9", "check samples/make.py", "compare none.npy none.npy"]),
    "shape": ([], ["shape avg 1,3,9,9 -k 3 --explain --compare --to onnx",
                   "shape adaptive-avg 1,3,7,7 --output-size 5 --to ngraph"]),
    "solve": ([], ["shape max 1,3,32,32 --solve 16", "shape max 1,3,9,9 -k 3 -s 2 -p 1 --solve 7"]),
    "chain": ([], ["chain 1,3,9,9 conv:k3,s2,p1,o8 adaptive-avg:2"]),
    "check": ([], [f"check {MODEL} --to pytorch", f"check {MODEL} --layer head --run data.npz"]),
    "identify": ([POOLED, COUNTED], [f"identify {FEATURES} pooled.npy",
                                     f"identify {FEATURES} counted.npy --exclude-pad"]),
    "compare": ([POOLED, COUNTED], ["compare pooled.npy pooled.npy", "compare pooled.npy counted.npy"]),
    "info": ([], ["info samples/volume.h5 samples/make.py"]),
    "pyramid": ([], ["pyramid samples/volume.h5 -o v.ome.zarr --levels 2 --unit um"]),
    "cache": ([], ["cache info", "cache clear"]),
}  # fmt: skip


@patch.dict(os.environ)
def _check(table: Table) -> None:
    if table.head[0] == "key, cache":
        os.environ["XDG_CACHE_HOME"] = os.path.abspath("cache")  # not the cache of whoever runs the tests
    prepare, lines = LINES[table.head[0].removeprefix("key, ")]
    if "--run data.npz" in lines[-1]:
        np.savez("data.npz", input=np.zeros((1, 192, 7, 7), "f4"), output=np.zeros((1, 192, 1, 1), "f4"))
    for line in prepare:
        assert typed(f"$ poolcli {line}")[1] in (0, 1), line
    printed: set[str] = set()
    for line in lines:
        text, _ = typed(f"$ poolcli {line} --json")
        documents = [json.loads(each) for each in text.splitlines() if each.startswith("{")]
        assert documents, text
        printed |= {key for document in documents for key in keys(document)}
    if table.head[0] == "key, shape":  # beside the keys of every plan
        printed = {key for key in printed if re.match(r"(explain|windows|compare|to)\b", key)}
    documented = [plain(row[0]).replace("[]", "") for row in table.rows]
    stems = [key.removesuffix(".*") for key in documented if key.endswith(".*")]
    folded = {next((stem for stem in stems if key.startswith(f"{stem}.")), key) for key in printed}
    assert folded == {part for key in documented for part in parts(key.removesuffix(".*"))}


def keys(value: Any, at: str = "") -> Iterator[str]:
    """Every key below `value`, also in lists; windows are keyed by axis.

    >>> list(keys({"axes": [{"name": "H"}], "windows": {"H": [{"stop": 3}]}}))
    ['axes', 'axes.name', 'windows', 'windows.*', 'windows.*.stop']
    """
    for each in value if isinstance(value, list) else [value]:
        for name, below in each.items() if isinstance(each, dict) else ():
            path = f"{at}.{'*' if at == 'windows' else name}".lstrip(".")
            yield path
            yield from keys(below, path)


def parts(key: str) -> Iterator[str]:
    """The key, and every key that holds it.

    >>> list(parts("input.path"))
    ['input', 'input.path']
    """
    words = key.split(".")
    for count in range(len(words)):
        yield ".".join(words[: count + 1])


for _name in LINES:
    table_of("docs/reference/json.md", f"key, {_name}")(_check)
