"""Runs the cells of a notebook in this process and puts what they show in the place of what is shown.

What comes of a cell is what Jupyter keeps of it, for code as it stands here: text that is printed, and the value of the
last line in each form that it has. Names of one notebook are not those of another.
"""

from __future__ import annotations

import ast
import io
import json
from contextlib import redirect_stdout
from typing import Any

from tests.documents.markdown import ROOT

NOTEBOOKS = tuple(sorted(ROOT.glob("docs/**/*.ipynb")))
FORMS = {"text/html": "_repr_html_", "image/svg+xml": "_repr_svg_"}


def renewed_notebook(text: str) -> str:
    """The notebook with what its cells show now, run one after the other in the working folder."""
    notebook, names, number = json.loads(text), dict[str, Any](), 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            number += 1
            cell["execution_count"] = number
            cell["outputs"] = list(_run("".join(cell["source"]), names, number))
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _run(source: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    tree, last = ast.parse(source), None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)  # type: ignore[attr-defined]  # it is an expression
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), names)  # noqa: S102  # the document's own text
        value = eval(compile(last, f"cell {number}", "eval"), names) if last else None  # noqa: S307  # as above
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())})
    if value is not None:
        forms = {kind: getattr(value, name)() for kind, name in FORMS.items() if hasattr(value, name)}
        data = {kind: _lines(shown) for kind, shown in (forms | {"text/plain": repr(value)}).items()}
        result = {"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"}
        outputs.append(result)
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)
