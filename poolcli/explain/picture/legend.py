"""What the colours of a drawing mean: everything that occurs in it, and nothing else."""

from __future__ import annotations

from dataclasses import replace

from poolcli.explain.picture.canvas import Box, Canvas, Dot, Shape, Words, wide
from poolcli.explain.picture.theme import READ, Role

SIZE = 14.0
WINDOWS: dict[Role, str] = {"first": "first window", "second": "second", "other": "others", "last": "last"}
WIDTH = 560.0  # to which a legend may go where the drawing is narrower
READERS = (  # of a shade, and where it goes on from one that some windows read
    ("read by no window", ""),
    ("read by 1 window", "1"),
    ("read by 2 windows", "2"),
    ("read by 3 windows", "3"),
    ("read by 4 windows or more", "4 or more"),
)
NUMBER = "a number in the output: what its sum is divided by"


def draw_legend(canvas: Canvas) -> None:
    """The legend below the drawing."""
    y, x = canvas.height + 28, 26.0
    edge = max(canvas.width, WIDTH)
    for sample, text in _entries(canvas.shapes):
        room = 20 + wide(text, 12) + 18
        if x > 26 and x + room > edge:
            x, y = 26.0, y + 22
        for shape in sample:
            canvas.add(replace(shape, x=x + shape.x, y=y + shape.y))
        canvas.add(Words(x + 20, y + 12, text, 12))
        x += room


def _entries(shapes: list[Shape]) -> list[tuple[tuple[Box | Dot | Words, ...], str]]:
    boxes = [shape for shape in shapes if isinstance(shape, Box)]
    borders, fills = {box.stroke for box in boxes}, {box.fill for box in boxes}
    hollow = {(box.fill, box.stroke, box.dashed) for box in boxes}
    found: list[tuple[tuple[Box | Dot | Words, ...], str]] = []

    def entry(occurs: bool, text: str, *sample: Box | Dot | Words) -> None:
        if occurs:
            found.append((sample, text))

    for role, text in WINDOWS.items():
        samples = [box for box in boxes if box.stroke == role]
        filled, dashed = any(box.fill == role for box in samples), all(box.dashed for box in samples)
        entry(role in borders, text, Box(0, 0, SIZE, SIZE, role if filled else None, role, 2.5, dashed=dashed))
    dilated = any(isinstance(shape, Dot) and shape.fill == "first" for shape in shapes)
    entry(dilated, "element of a window", Dot(SIZE / 2, SIZE / 2, 4, "first"))
    shades = [shade for shade in READ if any(box.fill == shade and box.stroke == "grid" for box in boxes)]
    for before, shade in zip((None, *shades), shades, strict=False):
        entry(
            True,
            READERS[READ.index(shade)][before not in (None, READ[0])],
            Box(0, 0, SIZE, SIZE, shade, "grid", hatched=shade == READ[0]),
        )
    entry("padding" in fills, "padding", Box(0, 0, SIZE, SIZE, "padding", "faint", dashed=True))
    past = (None, "faint", True) in hollow
    entry(past, "past the padding" if "padding" in fills else "past the input",
          Box(0, 0, SIZE, SIZE, None, "faint", dashed=True))  # fmt: skip
    outside = any(box.fill == "page" and box.dashed for box in boxes)
    entry(outside, "outside the input", Box(0, 1, SIZE, SIZE - 2, "page", "first", dashed=True))
    left_out = any(isinstance(shape, Dot) and shape.fill == "soft" for shape in shapes)
    entry(left_out, "left out", *(Dot(SIZE / 2 + k, SIZE / 2, 1.3, "soft") for k in (-4, 0, 4)))
    numbers = any(isinstance(shape, Words) and shape.fill == "on" for shape in shapes)
    entry(numbers, NUMBER, Box(0, 0, SIZE, SIZE, "page", "grid"), Words(SIZE / 2, 11, "9", 10, "middle"))
    return found
