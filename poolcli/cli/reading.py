"""How the files are read of which a command makes no others: they are compared, or asked what they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from poolcli.cli.settings import refuse_below_one
from poolcli.errors import RequestError
from poolcli.formats import ReadOptions, Source, Tensor
from poolcli.formats.checks import tensor_layout
from poolcli.formats.table import FORMATS, with_suffix
from poolcli.layouts import convert_layout
from poolcli.message_fields import field
from poolcli.system.limits import memory_budget

NONE_OF_SEVERAL = "names arrays of files that hold several, and no input is one"
WHATEVER = 2**63 - 1  # bytes: of a header alone nothing grows


class Reads(Protocol):
    """A request that says how files are read."""

    @property
    def pages(self) -> str | None: ...
    @property
    def max_pixels(self) -> int | None: ...
    @property
    def allow_external(self) -> bool: ...


class ReadsWhole(Reads, Protocol):
    """One that reads their data, too."""

    @property
    def max_memory(self) -> str | None: ...


def refuse_width_by_height(size: str | None, paths: Iterable[str]) -> None:
    """Refuses 200x150 as the output size of an image: people mean width by height, and options are in the order H,W."""
    found = re.fullmatch(r"\s*(\d+)\s*[xX×]\s*(\d+)\s*", size or "")
    if found is None or found[1] == found[2]:
        return
    rows = [with_suffix(path, FORMATS.values()) for path in paths]
    if any(row is not None and row.picture for row in rows):
        raise RequestError(
            f"{field('output_size', size)}: the order is H,W, and for an image 200x150 is width by height; "
            f"write {field('output_size', f'{found[2]},{found[1]}')}".replace("200x150", str(size).strip())
        )


def as_tensor(found: Tensor) -> Tensor:
    """A picture as tensor files hold it; any other array as it is."""
    layout = found.header.layout
    if found.header.mode is None or layout is None:
        return found
    array = convert_layout(found.array, layout, tensor_layout(layout))
    return replace(found, array=array, header=replace(found.header, shape=array.shape, layout=tensor_layout(layout)))


def holds_several_named(path: str) -> bool:
    """Whether a file may hold several arrays, going by its name."""
    row = with_suffix(path, list(FORMATS.values()))
    return row is None or row.several


def header_options(request: Reads, sources: Sequence[Source]) -> ReadOptions:
    """How headers are read; refuses what has no effect on these files."""
    refuse_below_one("max_pixels", request.max_pixels)
    formats = [with_suffix(source.path, list(FORMATS.values())) for source in sources]
    if request.pages and not any(row is None or row.picture for row in formats):
        raise RequestError(f"{field('pages')} is for images, and no input is one; leave it out")
    return ReadOptions(request.pages, request.max_pixels, request.allow_external, allowed=WHATEVER)


def whole_options(request: ReadsWhole, sources: Sequence[Source]) -> ReadOptions:
    """How whole arrays are read, of pictures and of other files; refuses what has no effect on these."""
    limits = data_options(request.allow_external, request.max_memory)
    return replace(header_options(request, sources), limit=limits.limit, allowed=limits.allowed)


def data_options(allow_external: bool, max_memory: str | None) -> ReadOptions:
    """How whole arrays are read."""
    limit = memory_budget(max_memory)
    return ReadOptions(allow_external=allow_external, limit=limit, allowed=limit if max_memory else None)
