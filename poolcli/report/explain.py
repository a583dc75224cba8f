"""Views of explanations: `shape` with its options, `chain`, `identify` and `compare`; the JSON of the last two."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite, prod
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from poolcli.dialects import DIALECTS
from poolcli.explain import Window, explain, facts, window
from poolcli.explain.chain import Chain
from poolcli.explain.compare_dialects import attributed, compare_dialects, sentences
from poolcli.explain.diff_arrays import Difference
from poolcli.explain.export import convert
from poolcli.explain.identify import Candidate
from poolcli.explain.identify.samples import searched_operators
from poolcli.explain.solve import SEARCHED, Answer
from poolcli.formats import Tensor
from poolcli.layouts import named_shape
from poolcli.message_fields import field, for_cli, printable
from poolcli.ops import OPERATORS
from poolcli.plan import AxisPlan, Plan
from poolcli.report.as_json import options_of
from poolcli.report.outcome import add_notes, grid, plain_table
from poolcli.windows import Sliding

DRAWN_LENGTH, DRAWN_WINDOWS = 48, 12  # of an axis with its padding, whose windows are drawn in the terminal


def explanation_view(plan: Plan) -> RenderableType:
    """For each axis: the steps of the formula, facts, and the first, second and last window, drawn if they fit."""
    parts: list[RenderableType] = []
    first: dict[object, str] = {}  # the first axis with the same explanation
    for axis, explained in zip(plan.axes, explain(plan).axes, strict=True):
        same = first.setdefault((explained.steps, explained.windows), axis.name)
        if same != axis.name:
            parts += ["", Text(f"axis {axis.name}: as axis {same}", style="bold")]
            continue
        parts += ["", Text(f"axis {axis.name}", style="bold")]
        parts += (Padding(Text(line), (0, 0, 0, 2), expand=False) for line in (*explained.steps, *facts(explained)))
        parts += ["", windows_table(axis, explained.windows, plan.reducer.divides)]
        if picture := drawing(axis):
            parts += ["", picture]
    return Group(*parts[1:])


def windows_table(axis: AxisPlan, windows: Sequence[Window], mean: bool) -> Table:
    """One row for each window of an axis: its span, the elements that it reads, weights, and its divisor."""
    table, weighted = plain_table(), any(w.weights for w in windows)
    weights = ("weights",) if weighted else ()
    for heading in ("window", "spans", "reads", *weights, *(("divides by",) if mean else ("elements",))):
        table.add_column(heading, justify="right", no_wrap=True)
    last = -1
    for w in windows:
        if w.output > last + 1:
            table.add_row("...")
        last = w.output
        step = axis.windows.span(w.output).step
        steps = f" by {step}" if step > 1 else ""
        reads = "nothing" if w.first is None else str(w.first) if w.inside == 1 else f"{w.first} to {w.last}{steps}"
        cells = (f"{axis.name} {w.output}", f"[{w.start}, {w.stop})", reads, *((w.weights_text,) if weighted else ()))
        table.add_row(*cells, str(w.divisor if mean else w.inside))
    return table


def drawing(axis: AxisPlan) -> Table | None:
    """The windows of a short axis, one line each, below the padded input; None for a long axis."""
    w = axis.windows
    low, high = -w.pad_begin, max(w.size + w.pad_end, window(w, w.output - 1).stop)
    if high - low > DRAWN_LENGTH or w.output > DRAWN_WINDOWS:
        return None
    places = range(low, high)
    ruler = ["i" if 0 <= p < w.size else "p" if p < w.size + w.pad_end else "." for p in places]
    table = grid(1, justify="right")
    table.add_row("input", Text("".join(ruler), style="dim"))
    for o in range(w.output):
        read, reach = w.span(o), window(w, o)
        taps = range(reach.start, reach.stop, w.dilation)
        line = "".join("#" if p in read else "+" if p in taps else " " for p in places)
        table.add_row(f"{axis.name} {o}", Text(line.rstrip()))
    table.add_row("", Text("i input, p padding, . past it; # read, + window outside the input", style="dim"))
    return table


def comparison_view(plan: Plan) -> RenderableType:
    """One line for each framework; those that differ from the chosen one are marked."""
    rows = compare_dialects(plan.given, plan)
    table, divided = plain_table(), any(row.divisors for row in rows)
    for heading in ("", "as", "output", "pads", *(("divisors",) if divided else ())):
        table.add_column(heading, no_wrap=heading != "output", overflow="fold")
    refusals: dict[str, list[str]] = {}  # who refuses for each reason
    for row in rows:
        mark = "=" if row.chosen else "*" if row.differs else ""
        style = "bold" if row.chosen else "magenta" if row.differs else ""
        if row.plan is None:
            table.add_row(mark, row.title, "refused", style=style)
            refusals.setdefault(for_cli(row.refusal or ""), []).append(row.title)
            continue
        pads = " ".join(f"{w.pad_begin},{w.pad_end}" if isinstance(w, Sliding) else "-" for w in row.plan.windows)
        ends = (f"{row.divisors[0]} .. {row.divisors[1]}",) if row.divisors else ()
        table.add_row(mark, row.title, named_shape(row.plan.layout, row.plan.output_shape), pads, *ends, style=style)
    legend = "= chosen, * differs" + ("; divisors of the first and last window" if divided else "")
    told, causes = grid(1), [attributed(who, why) for why, who in refusals.items()] + sentences(rows)
    for sentence in causes:
        told.add_row("*", Text(sentence))
    return Group(table, Text(legend, style="dim"), *([""] if causes else []), told)


def answers_view(answers: Sequence[Answer], why: str = "") -> RenderableType:
    """The attributes that `--solve` has found, simplest first, as options; else `why` not, and what was searched."""
    if not answers:
        return Group(Text(f"no attributes give this size{': ' * bool(why)}{for_cli(why)}"), Text(SEARCHED))
    output = named_shape(answers[0].plan.layout, answers[0].plan.output_shape)
    return Group(f"output  {output}", "", *(Text(options_of(answer.op)) for answer in answers))


def conversion_view(plan: Plan, like: str) -> RenderableType:
    """The call in another framework, or why there is none."""
    conversion, heading = convert(plan, like), Text(f"the same in {DIALECTS[like].title}", style="bold")
    if conversion.text is None:
        return Group(heading, Text(f"none: {for_cli(conversion.reason or '')}"))
    call = Text(conversion.text, no_wrap=True, overflow="ignore")  # one line, to be pasted
    return Group(heading, call, *map(Text, conversion.conditions))


def chain_view(chain: Chain) -> RenderableType:
    """One line per layer, with one number if it is the same for all axes."""
    table = plain_table("layer", ",".join(chain.layout), "stride", "field", "output 0", "centre")
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    table.add_row("input", ",".join(map(str, chain.input_shape)))
    for layer in chain.layers:
        strides = ["-" if stride is None else str(stride) for stride in layer.stride]
        ends = ([map(str, dict.fromkeys(each or ["none"])) for each in every] for every in (layer.span, layer.centre))
        spans = (_per_axis(map("-".join, each)) for each in ends)
        shape = ",".join(map(str, layer.output))
        table.add_row(layer.layer, shape, _per_axis(strides), _per_axis(map(str, layer.field)), *spans)
    legend = "output 0, centre: the first and last input element that they depend on"
    return Group(table, Text(legend, style="dim"), *([add_notes(grid(), [chain.note])] if chain.note else []))


def _per_axis(values: Iterable[str]) -> str:
    found = list(values)
    return found[0] if len({*found}) == 1 else ",".join(found)


def candidates_view(found: Sequence[Candidate]) -> RenderableType:
    """The candidates, best first, with their errors."""
    table, first = plain_table("", "as", "options", "error"), found[0]
    for number, candidate in enumerate(found, 1):
        title = DIALECTS[candidate.op.like].title if OPERATORS[candidate.op.name].rules_of is None else "-"
        off = candidate.deviation
        error = "exact" if off.exact else f"{off.max_abs:.3g}{_ulps(off)}"
        table.add_row(str(number), title, f"{candidate.op.name} {options_of(candidate.op)}", error)
    heading, lines = f"layout {first.plan.layout}", list[RenderableType]()
    if first.plan.layout in ("CHW", "DHW"):  # which one number of a list does not mean
        heading += f", so add {for_cli(field('layout', first.plan.layout))} to the options"
    if first.deviation.exact and all(w.longest == 1 and w.size == w.output for w in first.plan.windows):
        heading += "; the arrays are equal: kernel 1 is the identity"
    off = first.deviation
    if off.elements < prod(off.shape):
        lines.append(Text(f"compared are {off.elements:,} of {prod(off.shape):,} outputs, for which there was time"))
    if not first.fits:
        why = f"by more than rounding error: {where(first.plan.layout, off)}"
        if first.rounding:
            why = f"by rounding alone: the output rounds {first.rounding}, poolcli to the nearest, halves to even"
        lines.append(Text(f"{off.different:,} of {off.elements:,} outputs differ {why}"))
        if first.noise is not None and not first.rounding:
            lines.append(Text(for_cli(f"as small as noise; {field('atol', first.noise)} accepts it")))
        heading += f"; not searched: {', '.join(name for name in OPERATORS if name not in searched_operators())}"
        return Group(Text(f"nothing fits ({heading}); the nearest is:"), "", table, *lines)
    return Group(Text(heading), "", table, *lines)


def candidates_document(x: Tensor, y: Tensor, found: Sequence[Candidate]) -> dict[str, Any]:
    """The candidates of `identify` as JSON, best first."""
    both = (("input", x.array), ("output", y.array))
    arrays = {name: {"shape": list(array.shape), "dtype": array.dtype.name} for name, array in both}
    candidates = [
        {
            "op": each.op.name,
            "like": each.op.like,
            "attributes": each.plan.attributes,
            "exact": each.deviation.exact,
            "max_abs": each.deviation.max_abs if isfinite(each.deviation.max_abs) else None,
            "max_ulp": each.deviation.max_ulp,
            "fits": each.fits,
            "layout": each.plan.layout,
            "options": options_of(each.op),
            "different": each.deviation.different,
            "elements": each.deviation.elements,
            "where": None if each.fits else where(each.plan.layout, each.deviation),
        }
        for each in found
    ]
    best = {"fits": found[0].fits, "noise": found[0].noise, "rounding": found[0].rounding}
    return {**arrays, **best, "candidates": candidates}


ROUNDING = 1e-3  # the largest difference, relative to an element there, that may be one of rounding


def difference_view(first: str, second: str, layout: str, found: Difference) -> RenderableType:
    """The verdict, the numbers, and where the differences lie."""
    table, shape = grid(), named_shape(layout, found.shape)
    for name, path, dtype in (("A", first, found.dtypes[0]), ("B", second, found.dtypes[1])):
        table.add_row(name, Text(f"{shape}  {dtype}  {printable(path)}"))
    if found.dtypes[0] != found.dtypes[1]:
        table.add_row(Text("note", style="magenta"), "the types differ; the values are compared")
    if found.max_abs:
        pair = f": {found.pair[0]} and {found.pair[1]}" if found.pair else ""
        place = named_shape(layout, found.where or ())
        is_nan = "nan" in (found.pair or ())  # a difference from NaN counts as infinity
        table.add_row("largest", f"{'nan' if is_nan else f'{found.max_abs:.6g}'}, at {place}{pair}")
        if _ulps(found) and found.where_ulp:
            table.add_row("ulp", f"at most {found.max_ulp:,}, at {named_shape(layout, found.where_ulp)}")
        table.add_row("mean", "nan" if is_nan else f"{found.mean_abs:.6g}")
        size = max((abs(float(element)) for element in found.pair or ()), default=0)
        if _ulps(found) and found.different and found.max_abs < ROUNDING * size:
            table.add_row("equal", f"with {for_cli(field('atol', f'{found.max_abs * 1.05:.1e}'))}")  # rounded up
    if found.different:
        table.add_row("where", where(layout, found))
    verdict = f"different: {found.different:,} of {found.elements:,} elements"
    if found.equal:
        verdict = f"equal{' within the tolerance' if found.max_abs else ''}: all {found.elements:,} elements"
    return Group(Text(verdict, style="bold green" if found.equal else "bold red"), table)


def _ulps(found: Difference) -> str:
    is_float = "float" in found.dtypes[0] and isfinite(found.max_abs)
    return f", {found.max_ulp:,} ulp" if is_float and found.max_ulp is not None else ""


def where(layout: str, found: Difference) -> str:
    """Where the differences are, in words, such as "last W" or "scattered"."""
    if found.different == found.elements:
        return "everywhere"
    if found.different == 1:
        return "a single element"
    told = [_along(*axis) for axis in zip(layout, found.shape, found.along, strict=True)]
    return "; ".join(filter(None, told)) or (
        f"only the border of {' and '.join(layout[-2:])}" if found.border else "scattered"
    )


def difference_document(first: str, second: str, layout: str, found: Difference) -> dict[str, Any]:
    """The same as JSON; infinite numbers and NaN are strings."""
    largest, mean = (value if isfinite(value) else str(value) for value in (found.max_abs, found.mean_abs))
    return {
        "a": {"path": first, "dtype": found.dtypes[0]},
        "b": {"path": second, "dtype": found.dtypes[1]},
        "shape": list(found.shape),
        "layout": layout,
        "equal": found.equal,
        "elements": found.elements,
        "different": found.different,
        "max_abs": largest,
        "mean_abs": mean,
        "max_ulp": found.max_ulp,
        "where_ulp": list(found.where_ulp) if found.where_ulp else None,
        "where": None if found.where is None else list(found.where),
        "error": None,
    }


def _along(letter: str, size: int, places: frozenset[int]) -> str:
    """What the places of differences along an axis have in common, in words; "" if nothing."""
    first, last = min(places), max(places)
    if len(places) == size:
        return ""
    if len(places) == 1:
        return f"last {letter}" if first == size - 1 else f"{letter}={first} alone" if first else f"first {letter}"
    if places == {0, size - 1}:
        return f"both ends of {letter}"
    return f"{letter} from {first} to {last}" if last - first == len(places) - 1 else ""
