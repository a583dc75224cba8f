"""The options of commands as the settings of jobs and of reading; refuses those that have no effect on the inputs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from poolcli.cli.values import WidthByHeight
from poolcli.errors import RequestError
from poolcli.formats import ReadOptions, Tensor
from poolcli.formats.checks import tensor_layout
from poolcli.formats.table import Format, format_by_suffix
from poolcli.layouts import convert_layout
from poolcli.message_fields import field
from poolcli.pooling.outcome import Settings
from poolcli.system.limits import memory_budget

if TYPE_CHECKING:
    from poolcli.cli.options import ArrayOptions

UNLIMITED = 2**63 - 1  # bytes; reading a header decompresses nothing
DATASET_UNUSED = "selects an array in a file that holds several, and no input is such a file"


def array_settings(request: ArrayOptions) -> Settings:
    """The settings that pooling and pyramids share; fields of Settings that are options are taken as they are."""
    same: dict[str, Any] = {
        own.name: getattr(request, own.name) for own in fields(Settings) if hasattr(request, own.name)
    }
    limits = {"max_memory": _limit(request.max_memory), "allowed": request.max_memory}
    return Settings(**same | limits | {"threads": request.jobs})


def header_options(pages: str | None, allow_external: bool, paths: Iterable[str]) -> ReadOptions:
    """How headers are read; refuses `--pages` without an image."""
    if pages and not any(row is None or row.is_image for row in formats_of(paths)):
        raise RequestError(f"{field('pages')} is for images, and no input is one; leave it out")
    return ReadOptions(pages, allow_external, allowed=UNLIMITED)


def array_options(
    allow_external: bool, max_memory: int | None, pages: str | None = None, paths: Iterable[str] = ()
) -> ReadOptions:
    """How whole arrays are read; refuses `--pages` without an image."""
    found = header_options(pages, allow_external, paths)
    return replace(found, limit=_limit(max_memory), allowed=max_memory)


def _limit(max_memory: int | None) -> int | None:
    return memory_budget(None) if max_memory is None else max_memory


def as_tensor(found: Tensor) -> Tensor:
    """An image with its axes in the order of tensors; any other array unchanged."""
    layout = found.header.layout
    if found.header.mode is None or layout is None:
        return found
    array = convert_layout(found.array, layout, tensor_layout(layout))
    return replace(found, array=array, header=replace(found.header, shape=array.shape, layout=tensor_layout(layout)))


def refuse_width_by_height(size: object, paths: Iterable[str]) -> None:
    """Refuses 200x150 as the output size of an image, because the order here is H,W."""
    if isinstance(size, WidthByHeight) and any(row and row.is_image for row in formats_of(paths)):
        width, height = size
        raise RequestError(
            f"{field('output_size', f'{width}x{height}')}: the order is H,W, and for an image {width}x{height} is "
            f"width by height; write {field('output_size', (height, width))}, or {field('fit', f'{width}x{height}')} "
            "to keep its aspect"
        )


def formats_of(paths: Iterable[str]) -> list[Format | None]:
    """The formats of files by their names, each once; None stands for files of no known format."""
    rows = (format_by_suffix(path) for path in paths)
    return list({row.name if row else "": row for row in rows}.values())
