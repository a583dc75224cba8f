"""Writes what the commands of the documents print now into them: python -m tests.documents [DOCUMENT...].

Look at the difference before you keep it: what the documents show is what the tests demand.
"""

from __future__ import annotations

import sys
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory

from tests.bench.chart import chart
from tests.documents.console import pictures, renewed, workplace
from tests.documents.markdown import DOCUMENTS, tables
from tests.documents.notebook import NOTEBOOKS, renewed_notebook


def main() -> None:
    """Renews the documents and notebooks that are named, or all of them."""
    for path in map(Path.absolute, map(Path, sys.argv[1:])) if sys.argv[1:] else (*DOCUMENTS, *NOTEBOOKS):
        with TemporaryDirectory() as folder, workplace(Path(folder)):
            if path.suffix == ".ipynb":
                path.write_text(renewed_notebook(path.read_text()))
                continue
            text = renewed(path.read_text())
            if path.name == "speed.md":
                (path.parent / "pictures" / "speed.svg").write_text(chart(tables(text)[0].rows))
            for made, kept in pictures(path):
                copyfile(made, kept)
        path.write_text(text)


if __name__ == "__main__":
    main()
