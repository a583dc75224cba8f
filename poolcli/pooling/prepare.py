"""Plans one array from the header of its file: what is written where, what that takes, and the notes on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

from poolcli import formats
from poolcli.arguments import min_count_from
from poolcli.dtypes import lookup
from poolcli.engine import WORKING_MEMORY
from poolcli.engine.choose import engine_notes
from poolcli.errors import RequestError
from poolcli.formats import records
from poolcli.formats.atomic import is_device
from poolcli.formats.checks import human_bytes, join_names
from poolcli.formats.files import array_names, check_distinct
from poolcli.layouts import check_layout, converted_shape
from poolcli.message_fields import AGAIN, field
from poolcli.plan import Fact, Plan, make_plan
from poolcli.plan.attributes import Attributes
from poolcli.plan.plan import whole
from poolcli.pooling import tiles
from poolcli.pooling.outcome import Colour, Job, Outcome, Settings, Stored
from poolcli.system.lazy_imports import numpy as np


def prepare_job(
    outcome: Outcome, op: Attributes, settings: Settings, header: records.Header, in_parts: bool = False
) -> Outcome:
    """Plans a job; returns its outcome with the plan, the arrays that will be written, and notes.

    Refuses an array that does not fit into memory, unless it can be read `in_parts`, and then results that do not fit
    on the disk: a header that claims too much is the fault of the input.
    """
    job = outcome.job
    plan, colour = _planned(job, op, settings, header)
    dtype, mode = plan.output_dtype, header.mode
    if settings.rescale is not None:
        if lookup(dtype).kind != "float":
            remedy = f"add {field('dtype', 'float32')}, or leave it out"
            raise RequestError(f"{field('rescale')} is for float results, but this is {dtype}; {remedy}")
        dtype, mode = "uint8", None
    for target in job.targets:
        array_names(target.path, [target.key or header.key])
    output, indices = _stored(job.output, job.output_key, plan, dtype, settings.output_layout, mode), None
    if output.path and formats.output_format(output.path).chunked and (settings.chunks or settings.shards):
        from poolcli.formats.zarr.storage import grid_of

        grid_of(output.shape, output.layout, asked=settings.chunks, asked_shards=settings.chunks and settings.shards)
    if job.indices and plan.index:
        indices = _stored(job.indices, job.indices_key, plan, plan.index.dtype, settings.output_layout, header.mode)
    for path in job.outputs:
        if not is_device(path):
            check_distinct(job.source.path, path)
    written = [each for each in (output, indices) if each and each.path]
    if settings.max_memory and (in_parts or header.nbytes <= settings.max_memory):
        _check_held(plan, written, settings.max_memory, in_parts)
    if not in_parts:
        tiles.check_fits(_memory_of(plan, header, output, indices is not None), settings.max_memory)
    formats.check_space((str(each.path), each.nbytes, header if each is output else None) for each in written)
    notes = (*_notes_on(job, plan, settings, header), *(colour.notes if colour else ()))
    longest = max((each.layout for each in (output, indices) if each), key=len)
    if len(longest) > len(plan.layout) and not settings.output_layout:
        notes += (f"images become {longest} in tensors; {field('output_layout', plan.layout)}{AGAIN} keeps the axes",)
    if plan.guessed and plan.layout == "CHW" and output.layout == "HWC" and output.shape[2] > len("RGBA"):
        notes += (f"C={output.shape[2]} are samples of one page; {field('layout', 'NHW')}{AGAIN} makes pages of them",)
    return replace(outcome, header=header, plan=plan, output=output, indices=indices, notes=notes, colour=colour)


def _planned(job: Job, op: Attributes, settings: Settings, header: records.Header) -> tuple[Plan, Colour | None]:
    """The plan, and how the channels of an image are pooled together."""
    own, named = header.layout, "".join(axis.letter for axis in header.axes)
    given = check_layout(settings.layout, len(header.shape)) if settings.layout and len(named) > 3 else named
    if given != named and (own == named or "D" in given):
        found = field("layout", settings.layout)
        raise RequestError(f"{found}: the axes of the file are {named}; use {field('layout', named)}")
    about: Any = {"layout": settings.layout, "named": own, "output_dtype": settings.dtype}
    planned = partial(make_plan, op, header.shape, header.dtype, min_count=settings.min_count, **about)
    missing, colour = header.missing if settings.missing is None else settings.missing, None
    plan = planned(missing=missing or None, nodata=_nodata_of_output(job, header, settings))
    if header.mode is not None or settings.linear_light:
        from poolcli.pooling.colour import choose_colour

        colour = choose_colour(plan, header, settings.linear_light)
    if plan.missing and colour:
        if settings.missing:
            raise RequestError(
                f"{field('missing')} is for numbers, and these are colours ({'; '.join(colour.notes)}); leave it out"
            )
        plan = planned(missing=None)
    return _plan_with_mask(plan, settings, job) if header.masked else plan, colour


def _notes_on(job: Job, plan: Plan, settings: Settings, header: records.Header) -> list[str]:
    notes = [*header.notes, *filter(None, [job.note]), *(f.message for f in (*plan.layout_warnings, *plan.facts))]
    if header.missing:
        used, declared = ([str(x) for x in np.array(some, header.dtype)] for some in (plan.missing, header.missing))
        voting = [str(number) for number, stored in zip(header.missing, declared, strict=True) if stored not in used]
        if voting:
            notes.append(f"the file's nodata value ({join_names(voting)}) is pooled like any other number")
    made, row = lookup(plan.output_dtype), formats.output_format(job.output or "-")
    fractions = not row.is_image or row.name == "tiff"
    is_data = header.mode is None or (row.name == "tiff" and made.bits > 8)  # 8 bits of an image are for the eye
    if plan.reducer.divides and is_data and made.is_integer and settings.dtype is None and fractions:
        notes.append(f"averages are rounded to {made.name}; {field('dtype', 'float32')}{AGAIN} keeps fractions")
    own = header.layout or ""
    both = {*own} & {*plan.layout} & {*"HWC"}
    if settings.layout and any(own.index(letter) != plan.layout.index(letter) for letter in both):
        notes.append(f"the axes of the file are {own}, and {field('layout')} reads them as {plan.layout}")
    if settings.min_count is not None and not (plan.missing or header.masked):
        notes.append(f"{field('min_count')} has no effect: no nodata value is known")
    if getattr(plan.given, "axis", None) is not None and not job.indices:
        notes.append(f"{field('axis')} is about {field('indices')}; {field('layout')} says which axes are pooled")
    return [*notes, *engine_notes(plan, settings.engine)]


def _plan_with_mask(plan: Plan, settings: Settings, job: Job) -> Plan:
    """The plan of an image with a mask, with a note about it."""
    nothing = plan.nodata
    if not plan.missing and lookup(plan.output_dtype).kind != "float":
        nothing = 0
    least = min_count_from(settings.min_count)
    few = "without valid elements" if least is None else f"with fewer than {least} valid elements"
    again = ", hidden again" if job.output and formats.output_format(job.output).nodata == "tags" else ""
    # Of nodata values another note says what windows without valid elements give.
    left = "" if plan.missing else f"; windows {few} give {'nan' if nothing is None else nothing}"
    fact = Fact("missing", f"pixels that a mask hides are missing and excluded{left}{again}")
    return replace(plan, nodata=nothing, min_count=least, facts=(*plan.facts, fact))


def _nodata_of_output(job: Job, header: records.Header, settings: Settings) -> float | None:
    """The nodata value that the metadata of the output will name, which are those of the input; None without one."""
    if not header.missing or not job.output or settings.rescale is not None:
        return None
    names_same = formats.FORMATS[header.format].nodata == formats.output_format(job.output).nodata != ""
    return header.missing[0] if names_same else None


def _stored(
    path: str | None, key: str | None, plan: Plan, dtype: str, output_layout: str | None, mode: str | None
) -> Stored:
    layout = check_layout(output_layout, len(output_layout)) if output_layout else plan.layout
    if path:
        usual = formats.check_output(path, converted_shape(plan.output_shape, plan.layout, layout), dtype, layout, mode)
        layout = layout if output_layout else usual
    return Stored(path, converted_shape(plan.output_shape, plan.layout, layout), dtype, layout, key)


def _memory_of(plan: Plan, header: records.Header, output: Stored, indices: bool) -> int:
    """The bytes for input, output, indices, their copies in another layout or format, and buffers of the engine if the
    array is larger than those.
    """
    turned = output.layout != plan.layout
    encoded = output.path not in (None, "-") and formats.output_format(str(output.path)).is_image
    copies = (turned + encoded) * lookup(plan.output_dtype).itemsize
    positions = tiles.POSITION_BYTES * (1 + turned) * indices
    needed = whole(plan).nbytes + header.extra_memory + prod(plan.output_shape) * (copies + positions)
    return needed + (WORKING_MEMORY if needed > WORKING_MEMORY else 0)


def _check_held(plan: Plan, written: Sequence[Stored], limit: int, in_parts: bool) -> None:
    """Refuses results beyond the memory limit, unless they are written while they are computed."""
    held = sum(
        each.nbytes for each in written if not in_parts or each.layout != plan.layout
        or prod(each.shape) < formats.output_format(str(each.path)).streams_from
    )  # fmt: skip
    if held > limit:
        what = f"the result is {human_bytes(held)} and is held in memory, whose limit is {human_bytes(limit)}"
        options = ("output_size",) if hasattr(plan.given, "output_size") else ("strides", "pads")
        raise RequestError(f"{what}; change {' or '.join(map(field, options))}, or raise {field('max_memory')}")
