"""The plan as users know it: with methods that explain, draw, compare and convert it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from poolcli.plan import Plan as BarePlan
from poolcli.plan.plan import whole
from poolcli.suggestions import no_member
from poolcli.system.lazy_imports import Array, numpy as np

if TYPE_CHECKING:
    from poolcli.explain import Explanation
    from poolcli.explain.compare_dialects import Row
    from poolcli.explain.export import Conversion
    from poolcli.explain.svg import Picture


class Plan(BarePlan):
    """Windows, shapes, types and notes of one pooling, made from a shape alone.

    Attributes
    ----------
    op, like : str
        Operator and dialect.
    attributes : dict
        Attributes with all defaults filled in; each is an attribute of the plan, too, such as `pads_begin`.
    layout : str
        One letter per axis; shapes are in this order.
    guessed : bool
        Whether the layout is assumed from the number of axes.
    input_shape, output_shape : tuple of int
    dtype, output_dtype : str
    axes : tuple of AxisPlan
        Name, windows and formula of each spatial axis, in the order D, H, W.
    divisor_rule : str or None
        What sums are divided by.
    divisor_override : int or None
    index : IndexPlan or None
        What indices count.
    empty_windows : int
        Windows without any input element.
    facts : tuple of Fact
        The notes with their kinds.
    missing : tuple
        Nodata values, excluded from every window.
    min_count : int or str or None
        Minimum number of valid elements of a window, or their share, such as "50%"; a window with fewer gives `nodata`.
    nodata : int or float or None
        Result of windows without enough valid elements; None is NaN, or for integers the first of `missing`.
    given : record
        Attributes as the caller gave them, before defaults and shapes were applied.
    """

    __slots__ = ()
    if not TYPE_CHECKING:
        __getattr__ = no_member

    @property
    def divisors(self) -> Array | None:
        """What each sum is divided by, in an array of the shape of the output; None if the operator does not divide.

        Examples
        --------
        >>> from poolcli import AvgPool
        >>> AvgPool(3, strides=2, pads=1).plan((1, 1, 4, 6)).divisors[0, 0]
        array([[4, 6, 6],
               [6, 9, 9]])
        """
        from poolcli.engine.numpy.sums import divisors

        return np.broadcast_to(divisors(whole(self)), self.output_shape) if self.reducer.divides else None

    def _repr_svg_(self) -> str:
        return self.picture().svg()

    def explain(self) -> Explanation:
        """Return the steps, windows and facts of every axis; as text, one sentence a line."""
        from poolcli.explain import explain

        return explain(self)

    def picture(self, path: str | os.PathLike[str] | None = None, *, overwrite: bool = False) -> Picture:
        """Return a picture of the windows, which notebooks display, and write it to `path` if one is given.

        Parameters
        ----------
        path : str or path, optional
            File to write; the extension selects the format: `.svg` or `.html`.
        overwrite : bool
            Whether an existing file may be replaced.

        Returns
        -------
        Picture

        Raises
        ------
        RequestError
            For another extension, and for an existing file without `overwrite`.
        """
        from poolcli.explain.svg import Picture

        drawn = Picture(self)
        if path is not None:
            drawn.save(path, overwrite)
        return drawn

    def compare(self) -> tuple[Row, ...]:
        """Plan the same attributes under the rules of each framework.

        Attributes that were not given take each framework's own default.

        Returns
        -------
        tuple of Row
            One per framework and rounding: its `title`, its `plan` or the `refusal`, whether it `differs`, and the
            `causes`, a sentence each. Frameworks that have the operator come first.

        Examples
        --------
        >>> from poolcli import AvgPool
        >>> rows = AvgPool(3, strides=2, pads=1, rounding_type="ceil").plan((1, 1, 6, 6)).compare()
        >>> [(row.title, row.plan.output_shape) for row in rows if row.plan][2:4]
        [('OpenVINO ceil_torch', (1, 1, 4, 4)), ('ONNX', (1, 1, 4, 4))]
        """
        from poolcli.explain.compare_dialects import compare_dialects

        return compare_dialects(self.given, self)

    def to(self, dialect: str) -> Conversion:
        """Convert to the equivalent call in another framework; see `convert`.

        Parameters
        ----------
        dialect : "openvino", "ngraph", "onnx", "pytorch" or "tensorflow"

        Returns
        -------
        Conversion
            Its `text` is the call or composition of calls, or None with a `reason`. `str` gives the one or the other.

        Raises
        ------
        RequestError
            For an unknown framework.

        Examples
        --------
        >>> from poolcli import MaxPool
        >>> print(MaxPool(3, strides=2, pads=1).plan((1, 3, 32, 32)).to("pytorch"))
        torch.nn.functional.max_pool2d(x, 3, stride=2, padding=1, ceil_mode=False)
        """
        from poolcli.explain.export import convert

        return convert(self, dialect)

    def save_onnx(self, path: str | os.PathLike[str], *, opset: int | None = None, overwrite: bool = False) -> None:
        """Write an ONNX model of this pooling alone, from input `x` to output `y`, with the shapes of the plan.

        Parameters
        ----------
        path : str or path
            File to write, `.onnx`.
        opset : int, optional
            Version of ONNX' operators, from 11 on; default 17, or the next one that can express the plan.
        overwrite : bool
            Whether an existing file may be replaced.

        Raises
        ------
        RequestError
            Where ONNX cannot express the plan, or the opset cannot; for another extension; for an existing file without
            `overwrite`; where the package onnx is missing.
        """
        from poolcli.explain.export.onnx_model import save_onnx

        save_onnx(self, path, opset, overwrite)
