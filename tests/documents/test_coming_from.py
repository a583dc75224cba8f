"""What only other frameworks can tell of the guides. TensorFlow's environment has little else (`.ci/run`)."""

from __future__ import annotations

from doctest import DocTestParser
from typing import Any

import numpy as np
import pytest

from tests.documents.checks import WHOLE
from tests.documents.markdown import ROOT, blocks, tables
from tests.documents.rows_of_coming import PAGE


def test_the_calls_of_tensorflow_give_what_poolcli_gives() -> None:
    pytest.importorskip("tensorflow")
    found = [table for table in tables((ROOT / PAGE).read_text()) if table.head[0] == "TensorFlow"]
    assert found
    for table in found:
        WHOLE[PAGE, "TensorFlow"](table)  # asserts that each call gives the same


def test_the_recipe_puts_maxima_back_as_pytorch_does() -> None:
    torch = pytest.importorskip("torch")
    names: dict[str, Any] = {}
    for block in blocks((ROOT / "docs" / "recipes.md").read_text(), "python"):
        for example in DocTestParser().get_examples(block.text):
            exec(example.source, names)  # noqa: S102  # the document's own text
    y, where = (torch.from_numpy(names[name]) for name in ("y", "where"))
    np.testing.assert_array_equal(names["back"], torch.nn.functional.max_unpool2d(y, where, 2))
