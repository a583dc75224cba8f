"""Options of the result: axes, types, units."""

from __future__ import annotations

from poolcli.arguments import INDEX_TYPES
from poolcli.cli.options.option import Option
from poolcli.dtypes import DTYPES

TYPES = tuple(DTYPES)

RESULT = {
    "axis": Option(
        "--axis", "First axis that indices count over: 0 all (default), 2 inside a plane.", "N", example="2"
    ),
    "index_element_type": Option(
        "--index-element-type", "Type of the indices: i64 (default) or i32.", "T", words=tuple(INDEX_TYPES)
    ),
    "layout": Option(
        "--layout",
        "Axes of the input: NCHW, NHWC, HWC, HW, ... Default: NC and spatial; images know theirs.",
        "AXES",
        "--data-format",
        example="NHWC",
    ),
    "output_layout": Option("--output-layout", "Axes of the output.", "AXES", example="NHWC"),
    "input_dtype": Option(
        "--input-dtype",
        "Type of the input where only a shape is typed. Default: float32, for mode uint8.",
        "T",
        words=TYPES,
    ),
    "dtype": Option(
        "--dtype",
        "Type of the result. Default: the input's; integers round half to even.",
        "T",
        "--output-dtype",
        words=TYPES,
    ),
    "missing": Option(
        "--missing",
        "Number that stands for no value, or nan: such elements leave their windows. Several times for several. "
        "Default: what HDF5 files name; none: nothing.",
        "VALUE",
        example="nan",
    ),
    "linear_light": Option("--linear-light", "Average pictures in linear light instead of sRGB values."),
    "rescale": Option(
        "--rescale",
        "Float results into pictures: LOW becomes 0 and HIGH 255. Alone: the ends of each result.",
        "LOW,HIGH",
        example="0,1",
        alone="auto",
        value=r"auto|[-+.\deE]+,[-+.\deE]+",
    ),
    "levels": Option(
        "--levels",
        "Levels in all, the first of full size. Default: until no axis is longer than 256.",
        "N",
        example="5",
    ),
    "scale": Option("--scale", "Distance of the elements: z=2,y=0.5,x=0.5. Default: the input's, or 1.", "A=S"),
    "unit": Option("--unit", "Unit of that distance, such as micrometer.", "UNIT", example="micrometer"),
    "ngff": Option("--ngff", "Version of OME-Zarr: 0.5 (default, Zarr 3) or 0.4 (Zarr 2).", "V", words=("0.5", "0.4")),
}
