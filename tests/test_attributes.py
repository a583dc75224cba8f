"""What records and functions take for an attribute, and what they refuse: when the record is made, by name."""

from __future__ import annotations

from dataclasses import fields
from inspect import signature
from typing import Any

import numpy as np
import pytest

import poolcli
from poolcli import AdaptiveMaxPool, PoolError, RequestError
from poolcli.ops import OPERATORS

# Without types: what they forbid is the subject.
AvgPool: Any = poolcli.AvgPool
MaxPool: Any = poolcli.MaxPool
avg_pool: Any = poolcli.avg_pool
max_pool: Any = poolcli.max_pool
X = np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8)
PHOTO: Any = X[0, 0]

REFUSED: tuple[tuple[str, Any, str], ...] = (
    ("bytes", lambda: AvgPool(b"2"), "kernel has b'2'; a whole number is needed"),
    ("a word", lambda: AvgPool("2"), "kernel has '2'; a whole number is needed"),
    ("a fraction", lambda: AvgPool(2.0), "kernel has 2.0; a whole number is needed"),
    ("a truth value", lambda: MaxPool((2, True)), "kernel has True; a whole number is needed"),
    ("numpy's truth value", lambda: MaxPool(np.True_), f"kernel has {np.True_!r}; a whole number is needed"),
    ("a set", lambda: MaxPool({2}), "kernel has {2}; a whole number is needed"),
    ("one kernel of two", lambda: AvgPool((2, 0)), "kernel is 0 on axis W; it must be at least 1"),
    ("return_indices as a word", lambda: max_pool(np.zeros((1, 1, 4)), 2, return_indices="no"),
     "return_indices is 'no'; it must be True or False"),
    ("an array as a shape", lambda: AvgPool(2).plan(np.zeros((1, 1, 4))),
     "shape is an array (ndarray); give its shape, as in x.shape"),
    ("exclude_pad as a word", lambda: AvgPool(2, exclude_pad="yes"), "exclude_pad is 'yes'; it must be True or False"),
    ("exclude_pad 2", lambda: AvgPool(2, exclude_pad=2), "exclude_pad is 2; it must be True or False"),
    ("axis True", lambda: MaxPool(2, axis=True), "axis has True; a whole number is needed"),
    ("axis 0.5", lambda: MaxPool(2, axis=0.5), "axis has 0.5; a whole number is needed"),
    ("a fraction for a divisor", lambda: AvgPool(2, divisor_override=4.0),
     "divisor_override is 4.0; a whole number other than 0 and below 2**31 is needed"),
    ("a number for a word", lambda: AvgPool(2, auto_pad=1),
     "auto_pad is 1; it must be one of explicit, same_upper, same_lower, valid"),
    ("same without TensorFlow", lambda: AvgPool(2, auto_pad="same", like="onnx"),
     "auto_pad is 'same'; it must be one of explicit, same_upper, same_lower, valid; did you mean same_upper or "
     "same_lower?"),
    ("an unknown framework", lambda: AdaptiveMaxPool(2, like="caffe"),
     "like is 'caffe'; it must be one of openvino, ngraph, onnx, pytorch, tensorflow"),
    ("an unknown index type", lambda: AdaptiveMaxPool(2, index_element_type="i16"),
     "index_element_type is 'i16'; it must be one of i32, i64"),
    ("no kernel at all", lambda: avg_pool(X, ()), "kernel is empty; give one number, or one for each spatial axis"),
    ("exchanged", lambda: avg_pool(2, X),
     f"kernel is an array of shape {X.shape}; whole numbers are needed (x comes first)"),
    ("a fraction for identify", lambda: poolcli.identify(X, X, kernel=2.0), "kernel has 2.0; a whole number is needed"),
    ("a record for layers", lambda: poolcli.chain((1, 1, 4), MaxPool(2)),
     "layers is a MaxPool; give a list of layers, such as ['max:k3,s2', 'avg:k2']"),
    ("an image for its shape", lambda: poolcli.fit_size(PHOTO, "HW", 9),
     "shape is an array (ndarray); give its shape, as in x.shape"),
    ("layout as a number", lambda: avg_pool(X, 2, layout=5), "layout is 5; a word such as 'NCHW' is needed"),
    ("out as a list", lambda: avg_pool(X, 2, out=[]), "out is a list; a numpy array is needed"),
    ("threads as a word", lambda: avg_pool(X, 2, threads="2"), "threads has '2'; a whole number is needed"),
    ("threads as a fraction", lambda: avg_pool(X, 2, threads=2.5), "threads has 2.5; a whole number is needed"),
    ("threads 0", lambda: avg_pool(X, 2, threads=0), "threads is 0; it must be at least 1"),
    ("an unknown engine", lambda: avg_pool(X, 2, engine="cuda"),
     "engine is 'cuda'; it must be one of auto, numba, numpy"),
    ("an engine as a number", lambda: avg_pool(X, 2, engine=1), "engine is 1; it must be one of auto, numba, numpy"),
    ("a dtype in the other byte order", lambda: avg_pool(X, 2, dtype=">f4"),
     "dtype >f4 is not supported; use one of bool, uint8, uint16, uint32, uint64, int8, int16, int32, int64, float16, "
     "float32, float64, bfloat16"),
)  # fmt: skip


@pytest.mark.parametrize(("call", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_wrong_value_is_refused_in_words_of_python(call: Any, message: str) -> None:
    with pytest.raises(PoolError) as caught:
        call()
    assert (type(caught.value), str(caught.value)) == (RequestError, message)


@pytest.mark.parametrize("record", OPERATORS.values(), ids=OPERATORS)
def test_an_array_in_place_of_any_other_value_is_not_printed(record: Any) -> None:
    function, size = getattr(poolcli, record.name.replace("-", "_") + "_pool"), fields(record)[0].name
    for name in [*signature(function).parameters][1:]:
        with pytest.raises(PoolError) as refused:
            function(X, **{size: 2, name: np.full((2, 3, 4), 0.125)})
        assert "0.125" not in str(refused.value), name


TAKEN: tuple[tuple[str, Any, Any], ...] = (
    ("a number of numpy", AvgPool(np.int64(2)), AvgPool(2)),
    ("an array", AvgPool(np.array([2, 3])), AvgPool((2, 3))),
    ("a list", MaxPool([2, 3], strides=[1, 2]), MaxPool((2, 3), strides=(1, 2))),
    ("a divisor of numpy", AvgPool(2, divisor_override=np.int64(4)), AvgPool(2, divisor_override=4)),
    ("the largest divisor", AvgPool(2, divisor_override=2**31 - 1).divisor_override, 2147483647),
    ("0 for False", AvgPool(2, exclude_pad=0), AvgPool(2, exclude_pad=False)),
    ("numpy's False", AvgPool(2, exclude_pad=np.False_), AvgPool(2, exclude_pad=False)),
    ("TensorFlow's same", AvgPool(3, strides=2, auto_pad="SAME", like="keras"),
     AvgPool(3, strides=2, auto_pad="same_upper", like="tensorflow")),
)  # fmt: skip


@pytest.mark.parametrize(("given", "read"), [row[1:] for row in TAKEN], ids=[row[0] for row in TAKEN])
def test_what_means_the_same_is_the_same(given: Any, read: Any) -> None:
    assert given == read
    assert hash(given) == hash(read)


@pytest.mark.parametrize(
    ("name", "found"),
    [("f4", "float32"), ("<f8", "float64"), ("=u2", "uint16"), ("|b1", "bool"), ("?", "bool"), (float, "float64"),
     (np.float16, "float16"), (np.dtype("<i4"), "int32"), ("i1", "int8"), (int, "int64"), (bool, "bool")],
)  # fmt: skip
def test_types_are_known_by_the_names_that_numpy_has_for_them(name: object, found: str) -> None:
    assert MaxPool(2).plan((1, 1, 4), name).dtype == found


def test_what_was_called_before_changes_neither_a_result_nor_a_refusal() -> None:
    x = np.arange(8, dtype=np.float32).reshape(1, 1, 8)
    for dtype in (None, "float64", np.float64, np.dtype("float16"), None):
        found = poolcli.avg_pool(x, 2, strides=2, dtype=dtype)
        assert found.dtype == (dtype or "float32")
        assert found.tolist() == [[[0.5, 2.5, 4.5, 6.5]]]
    assert poolcli.avg_pool(x, 1, strides=1, exclude_pad=True).tolist() == x.tolist()
    kernel: Any
    for kernel in (True, 1.0, (1.0,), (True,)):
        with pytest.raises(RequestError):
            poolcli.avg_pool(x, kernel)
    for wrong in ({"strides": True}, {"exclude_pad": 2}):
        with pytest.raises(RequestError):
            poolcli.avg_pool(x, 1, **wrong)
    unknown: Any
    for unknown in ([], {}, ["float32"], object()):
        with pytest.raises(RequestError, match=r"dtype"):
            poolcli.avg_pool(x, 2, dtype=unknown)
    assert poolcli.avg_pool(x.astype(">f4"), 2, strides=2).tolist() == poolcli.avg_pool(x, 2, strides=2).tolist()
    assert poolcli.max_pool(x.reshape(1, 8, 1), 2, layout="NWC").shape == (1, 7, 1)
    assert poolcli.avg_pool(x.reshape(1, 8, 1), 2, layout="NWC").shape == (1, 7, 1)


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (
            "NHWC",
            "HWC",
            "layout NHWC names 4 axes, but the input has 3; give one letter for each axis (inputs are "
            "pooled one by one; to pool across several, stack them: numpy.stack)",
        ),
        ("HW", "CHW", "layout HW names 2 axes, but the input has 3; give one letter for each axis"),
        ("", "HWC", "layout '' must name each axis by its own letter, for example NCHW or HWC"),
        ("HWD", "HWC", "output layout HWC drops axis D, which is 3 long; only a length of 1 can be dropped"),
    ],
)
def test_layouts_that_an_array_cannot_have_are_refused(source: str, target: str, message: str) -> None:
    with pytest.raises(RequestError) as refused:
        poolcli.convert_layout(np.zeros((4, 5, 3)), source, target)
    assert str(refused.value) == message
    assert poolcli.convert_layout(np.zeros((4, 5, 3)), "hwc", "nchw").shape == (1, 3, 4, 5)
    assert poolcli.convert_layout(np.zeros((4, 3, 1, 1)), "nchw", "nc").shape == (4, 3)
    with pytest.raises(RequestError, match=r"^layout NC has no spatial axis; pooling needs at least one"):
        poolcli.avg_pool(np.zeros((4, 3)), 1, layout="nc")
