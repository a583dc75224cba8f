"""Every option of the command line, written once: how it is typed and what is said of it.

Its type and default are those of the field of the same name in a request (`poolcli.cli.requests`) or in the record of
an operator (`poolcli.cli.parameters`). A field without a row here is a TypeError when its command is made.
"""

from __future__ import annotations

from poolcli.cli.options.arguments import ARGUMENTS
from poolcli.cli.options.explain import EXPLAIN
from poolcli.cli.options.files import FILES
from poolcli.cli.options.option import ELEMENTS, Argument, Option
from poolcli.cli.options.result import RESULT, TYPES
from poolcli.cli.options.run import RUN
from poolcli.cli.options.windows import WINDOWS

__all__ = ["ELEMENTS", "OPTIONS", "PANELS", "SETTINGS", "TYPES", "Argument", "Option"]

# As the help shows them, in this order.
PANELS = {"Windows": WINDOWS, "Result": RESULT, "Explain": EXPLAIN, "Files": FILES, "Run and report": RUN}
OPTIONS: dict[str, Option | Argument] = {**ARGUMENTS, **WINDOWS, **RESULT, **EXPLAIN, **FILES, **RUN}
# What other frameworks call a setting, as an option without a value: the field, and how it is set.
SETTINGS = {
    "--ceil-mode": ("rounding_type", "--rounding-type=ceil"),
    "--count-include-pad": ("exclude_pad", "--include-pad"),
}
