"""From a header to everything that can be known before data is read, every refusal included."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import lru_cache

from poolcli.engine.choose import engine_notes
from poolcli.errors import RequestError
from poolcli.formats import Header, check_chunks, check_output
from poolcli.formats.atomic import is_device
from poolcli.formats.checks import named
from poolcli.formats.names import array_names
from poolcli.formats.paths import check_apart
from poolcli.layouts import check_layout, converted_shape
from poolcli.message_fields import field
from poolcli.nodata import Missing
from poolcli.plan import Plan, make_plan
from poolcli.plan.attributes import Attributes
from poolcli.pooling.colour import choose_colour
from poolcli.pooling.job import Job
from poolcli.pooling.outcome import Outcome, Settings, Stored
from poolcli.pooling.rescale import STORED, check_rescale


def prepare_job(outcome: Outcome, op: Attributes, settings: Settings, header: Header) -> Outcome:
    """The outcome with its plan, the arrays that will be stored, and notes."""
    job = outcome.job
    layout = settings.layout or header.layout
    missing = header.missing if settings.missing is None else settings.missing
    plan = _plan(op, header, layout, settings, missing)
    colour = choose_colour(plan, header, settings.linear_light)
    if plan.missing and not colour.is_plain:
        if settings.missing:
            raise RequestError(
                f"{field('missing')} is for numbers, and these are colours ({'; '.join(colour.notes)}); leave it out"
            )
        plan = _plan(op, header, layout, settings, ())
    dtype, mode = plan.output_dtype, header.mode
    if settings.rescale is not None:
        check_rescale(plan, job.output)
        dtype, mode = STORED, None
    for target in job.targets:
        array_names(target.path, [target.key or header.key])
    output = _stored(job.output, job.output_key, plan, dtype, settings.output_layout, mode)
    if output.path:
        check_chunks(output.path, output.shape, output.layout, settings.chunks, settings.shards)
    indices = None
    if job.indices:
        if plan.index is None:
            raise RequestError(f"{plan.op} has no indices: it picks no element of its windows")
        indices = _stored(job.indices, job.indices_key, plan, plan.index.dtype, settings.output_layout, header.mode)
    _refuse_input(job, header)
    ran = (*_voting(header, plan), *engine_notes(plan, settings.engine))
    notes = (*header.notes, *(fact.message for fact in (*plan.doubts, *plan.facts)), *ran, *colour.notes)
    return replace(outcome, header=header, plan=plan, output=output, indices=indices, notes=notes, colour=colour)


def _refuse_input(job: Job, header: Header) -> None:
    """Refuses to put a result in the place of the array that it is computed from."""
    for target in job.targets:
        if target.key is None and not is_device(target.path):
            check_apart(job.source.path, target.path)
        same = target.key is not None and header.key is not None and target.key.strip("/") == header.key.strip("/")
        if same and os.path.exists(target.path) and os.path.samefile(target.path, job.source.path):
            raise RequestError(f"output {target} is the input; name another dataset")


def _voting(header: Header, plan: Plan) -> tuple[str, ...]:
    """A note on numbers that the file calls missing and that count all the same."""
    voting = [str(number) for number in header.missing if str(number) not in map(str, plan.missing)]
    return (f"what the file calls missing ({named(voting)}) is pooled like any other number",) if voting else ()


def _plan(op: Attributes, header: Header, layout: str | None, settings: Settings, missing: Missing) -> Plan:
    if missing:  # of these, 0.0 and -0.0 are equal, and not the same
        return make_plan(op, header.shape, header.dtype, layout=layout, output_dtype=settings.dtype, missing=missing)
    return _kept_plan(op, header.shape, header.dtype, layout, settings.dtype)


@lru_cache(maxsize=16)
def _kept_plan(op: Attributes, shape: tuple[int, ...], dtype: str, layout: str | None, output_dtype: object) -> Plan:
    """The plan of arrays that are alike, which most of a folder are."""
    return make_plan(op, shape, dtype, layout=layout, output_dtype=output_dtype)


def _stored(
    path: str | None, key: str | None, plan: Plan, dtype: str, output_layout: str | None, mode: str | None
) -> Stored:
    layout, shape = plan.layout, plan.output_shape
    if output_layout:
        layout = check_layout(output_layout, len(output_layout))
        shape = converted_shape(plan.output_shape, plan.layout, layout)
    if path:
        kept = check_output(path, shape, dtype, layout, mode)
        layout = layout if output_layout else kept
    return Stored(path, converted_shape(plan.output_shape, plan.layout, layout), dtype, layout, key)
