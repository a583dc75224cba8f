"""A message names a field as its reader types it: a keyword in Python, an option on the command line."""

from __future__ import annotations

from multiprocessing import Pipe
from typing import Any

import pytest

from poolcli import AvgPool
from poolcli.errors import FileError, PoolError, RequestError
from poolcli.message_fields import field, first_field, for_cli, for_python
from tests.conftest import Cli

SPELLINGS: list[tuple[str, object, str, str]] = [
    ("kernel", None, "kernel", "--kernel"),
    ("kernel", 2, "kernel=2", "--kernel 2"),
    ("kernel", (2, 3), "kernel=(2, 3)", "--kernel 2,3"),
    ("rounding_type", "ceil", "rounding_type='ceil'", "--rounding-type ceil"),
    ("dataset", "top level", "dataset='top level'", "--dataset 'top level'"),
    ("exclude_pad", None, "exclude_pad", "--exclude-pad"),
    ("exclude_pad", True, "exclude_pad=True", "--exclude-pad"),
    ("exclude_pad", False, "exclude_pad=False", "--include-pad"),
    ("overwrite", True, "overwrite=True", "--overwrite"),
    ("pads", None, "pads", "--pads"),
    ("pads", 1, "pads=1", "--pads 1"),
]


@pytest.mark.parametrize(("name", "value", "keyword", "option"), SPELLINGS, ids=[f"{s[0]} {s[1]}" for s in SPELLINGS])
def test_a_field_is_a_keyword_in_python_and_an_option_on_the_command_line(
    name: str, value: object, keyword: str, option: str
) -> None:
    message = f"use {field(name, value)} here"
    assert for_python(message) == f"use {keyword} here"
    assert for_cli(message) == f"use {option} here"
    assert first_field(message) == name


def test_a_value_that_holds_the_marks_of_a_field_does_not_pass_for_one() -> None:
    message = field("layout", field("kernel", 2))
    assert for_cli(message) == "--layout '\ufffdkernel\ufffdkernel=2\ufffd2\ufffd'"
    assert first_field(message) == "layout"


def through_a_pipe(error: PoolError) -> Any:
    here, there = Pipe()
    there.send(error)
    return here.recv()


@pytest.mark.parametrize("kind", [RequestError, FileError])
def test_an_error_keeps_its_fields_through_a_pipe_and_a_place(kind: type[PoolError]) -> None:
    error = kind(f"{field('kernel')} is 0; leave out {field('pads')}")
    error.add_note("where it was raised")
    for each, place in ((through_a_pipe(error), ""), (error.at("a.npy"), "a.npy: ")):
        assert type(each) is kind
        assert str(each) == f"{place}kernel is 0; leave out pads"
        assert repr(each) == f"{kind.__name__}({str(each)!r})"
        assert for_cli(each.message) == f"{place}--kernel is 0; leave out --pads"
        assert (each.field, each.__notes__) == ("kernel", ["where it was raised"])


def test_the_field_of_an_error_is_the_first_of_its_message_unless_another_is_named() -> None:
    assert RequestError("the file is empty").field is None
    assert RequestError(f"use {field('like')} or {field('kernel')}").field == "like"
    named = RequestError(f"the size is odd; use {field('kernel')}", field="strides")
    assert (named.field, named.at("x").field, through_a_pipe(named).field) == ("strides",) * 3


def test_json_names_the_field_that_an_error_is_about(cli: Cli, folder: object) -> None:
    documents = [cli("avg", name, "-o", "y.npy", "-k", "7", "--json").json["error"] for name in ("x.npy", "bad.npy")]
    assert documents == [
        {
            "kind": "request",
            "message": "x.npy: axis H is 6 long, kernel 7 without padding leaves no window; use --kernel 6 or --pads 1",
            "field": "kernel",
        },
        {
            "kind": "file",
            "message": "bad.npy: is not a .npy file (its first bytes are not those of one)",
            "field": None,
        },
    ]


def test_notes_name_fields_as_their_reader_types_them(cli: Cli, folder: object) -> None:
    said = "strides not given: 1 on every axis; PyTorch and Keras take the kernel: use"
    assert AvgPool(3).plan((1, 2, 6, 8)).notes == (f"{said} strides=3",)
    typed = f"{said} --strides 3"
    for command in (["shape", "avg", "1,2,6,8"], ["avg", "x.npy", "-n"]):
        assert cli(*command, "-k", "3", "--json").json["notes"] == [typed]
        assert cli(*command, "-k", "3", columns=120).out.splitlines()[-1 - ("-n" in command)] == f"note     {typed}"
