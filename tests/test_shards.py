"""A run in shards: each input in one of them, and all together what one run makes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolcli.formats.table import format_by_suffix
from poolcli.plan.plan import Region
from poolcli.pooling import tiles
from poolcli.runs.inputs import Shard
from poolcli.runs.manifest import NAME, merge
from poolcli.system.signals import Stopped
from tests.profiles import slow

COUNT = 12


@pytest.fixture
def arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Twelve arrays in a folder and one below it."""
    monkeypatch.chdir(tmp_path)
    Path("in/deep").mkdir(parents=True)
    for i in range(COUNT):
        np.save(f"in/{'deep/' * (i % 2)}{i}.npy", np.full((1, 1, 4, 4), i, np.float32))
    return tmp_path


def pooled(cli: Any, folder: str, *more: object) -> Any:
    return cli("max", "in", "-r", "-o", f"{folder}/", "-k", "2", "-s", "2", *more)


def sharded(cli: Any, folder: str, *shards: str, more: tuple[str, ...] = ()) -> None:
    for shard in shards:
        assert pooled(cli, folder, "--shard", shard, *more).code == 0


def contents(folder: str) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in Path(folder).rglob("*") if p.is_file()}


@given(st.text("aZ.0_/ \u00e4\u0308", min_size=1), st.integers(1, 9))
def test_each_name_belongs_to_one_shard(name: str, count: int) -> None:
    assert sum(Shard(number, count).includes(name) for number in range(1, count + 1)) == 1


@pytest.mark.parametrize("other", ["Sub/Cat.NPY", "sub/cat.jpeg", "./sub/cat.png", "sub//cat.png"])
def test_names_whose_outputs_could_clash_belong_together(other: str) -> None:
    for count in range(2, 60):
        numbers = range(1, count + 1)
        assert [Shard(n, count).includes("sub/cat.png") for n in numbers] == [
            Shard(n, count).includes(other) for n in numbers
        ]


def test_a_composed_name_belongs_to_the_decomposed_one() -> None:
    for count in range(2, 60):
        assert Shard(1, count).includes("caf\N{LATIN SMALL LETTER E WITH ACUTE}") == Shard(1, count).includes(
            "cafe\u0301"
        )


@pytest.mark.parametrize("more", [(), slow(("--cluster", "local:2"))])
@pytest.mark.workers
def test_shards_in_any_order_make_the_files_and_the_manifest_of_one_run(
    arrays: Path, cli: Any, more: tuple[str, ...]
) -> None:
    assert pooled(cli, "one").out == "12 done, 0 skipped, 0 failed\n"
    sharded(cli, "three", "3/3", "1/3", "2/3", more=more)
    merged = cli("merge", "three")
    assert (merged.code, merged.out, merged.err) == (0, "three/.poolcli.jsonl: 3 shards, 12 outputs\n", "")
    assert contents("three") == contents("one")


def test_more_shards_than_inputs_leave_some_with_nothing_to_do(arrays: Path, cli: Any) -> None:
    pooled(cli, "one")
    found = [pooled(cli, "many", "--shard", f"{i}/40") for i in range(1, 41)]
    assert {result.code for result in found} == {0}
    assert "0 done, 0 skipped, 0 failed\n" in [result.out for result in found]
    merged = cli("merge", "many", "--json")
    assert merged.json == {"schema_version": 1, "path": "many/.poolcli.jsonl", "shards": 40, "outputs": 12}
    assert contents("many") == contents("one")


def test_globs_and_lists_are_shared_out_by_the_same_names(arrays: Path, cli: Any) -> None:
    words = "max", "-o", "out/", "-k", "2", "-s", "2", "--skip-existing"
    Path("list.txt").write_text("".join(f"in/{i}.npy\n" for i in range(0, COUNT, 2)))
    for given_as in (["in/*.npy"], ["--files-from", "list.txt"], [f"in/{i}.npy" for i in range(0, COUNT, 2)]):
        done = [cli(*words, *given_as, "--shard", f"{i}/2", "--dry-run", "--json") for i in (1, 2)]
        paths = [json.loads(line)["input"]["path"] for result in done for line in result.out.splitlines()]
        assert sorted(paths) == sorted(f"in/{i}.npy" for i in range(0, COUNT, 2))


def test_a_shard_looks_at_no_input_of_another(arrays: Path, cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def looking(path: str, rows: Any) -> Any:
        seen.append(path)
        return format_by_suffix(path, rows)

    monkeypatch.setattr("poolcli.runs.inputs.format_by_suffix", looking)
    pooled(cli, "out", "--shard", "1/3")
    assert 0 < len(seen) < COUNT
    assert all(Shard(1, 3).includes(path.removeprefix("in/")) for path in seen)


def test_a_shard_is_continued_and_merged_runs_are_known(arrays: Path, cli: Any) -> None:
    sharded(cli, "out", "1/2", "2/2")
    Path("out/4.npy").unlink()
    number = 1 if Shard(1, 2).includes("4.npy") else 2
    again = pooled(cli, "out", "--shard", f"{number}/2", "--resume").out.split(" done")[0]
    assert again == "1"
    assert cli("merge", "out").code == 0
    for shard in "1/2", "2/2":
        assert pooled(cli, "out", "--shard", shard, "--resume").out.startswith("0 done, ")
    assert cli("merge", "out").out == "out/.poolcli.jsonl: 2 shards, 12 outputs\n"


def missing(cli: Any) -> None:
    sharded(cli, "out", "1/4", "3/4")


def failed(cli: Any) -> None:
    sharded(cli, "out", "1/1")
    Path("in/deep/3.npy").write_bytes(b"broken")
    assert pooled(cli, "out", "--shard", "1/1", "--overwrite").code == 1


def changed(cli: Any) -> None:
    sharded(cli, "out", "1/2")
    assert cli("max", "in", "-r", "-o", "out/", "-k", "3", "-s", "2", "--shard", "2/2").code == 0


def two_runs(cli: Any) -> None:
    sharded(cli, "out", "1/2", "1/3", more=("--overwrite",))


def gone(cli: Any) -> None:
    sharded(cli, "out", "1/1")
    Path("out/0.npy").unlink()


def linked(cli: Any) -> None:
    sharded(cli, "out", "1/1")
    Path("out/.poolcli-1-of-1.jsonl").rename("part")
    Path("out/.poolcli-1-of-1.jsonl").symlink_to(Path("part").resolve())


def altered(cli: Any) -> None:
    sharded(cli, "out", "1/1")
    with open("out/0.npy", "r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        stream.write(b"?")


def altered_after_merging(cli: Any) -> None:
    sharded(cli, "out", "1/1")
    assert cli("merge", "out").code == 0
    Path("out/0.npy").write_bytes(b"")


def none(cli: Any) -> None:
    Path("out").mkdir()


@pytest.mark.parametrize(
    ("make", "code", "said"),
    [
        (missing, 1, "out: shards 2/4, 4/4 are not there; run what is missing, then merge again"),
        (
            failed, 1,
            "out: shard 1/1 is not done: stopped, still running, or some inputs failed; "
            "pool again with --resume, then merge",
        ),
        (
            changed, 2,
            "out: shards 1/2 and 2/2 were made with different options; pool one of them again with --overwrite",
        ),
        (two_runs, 2, "out holds parts of runs of 2 and of 3 shards; remove those of the wrong one"),
        (
            gone, 1,
            "out/0.npy: is not there, though shard 1/1 made it; pool that shard again with --resume, then merge",
        ),
        (
            altered, 1,
            "out/0.npy: has changed since shard 1/1 made it; pool that shard again with --resume, then merge",
        ),
        (
            altered_after_merging, 1,
            "out/0.npy: has changed since it was made; pool again with --resume, then merge",
        ),
        (linked, 1, "out/.poolcli-1-of-1.jsonl: is a link, which is not followed"),
        (none, 2, "out contains no shards; pool with --shard 1/4, 2/4, ... first"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)  # fmt: skip
def test_what_cannot_be_merged_is_refused_and_stays_as_it_is(
    make: Any, code: int, said: str, arrays: Path, cli: Any
) -> None:
    make(cli)
    before = contents("out")
    result = cli("merge", "out")
    assert (result.code, result.out, result.err) == (code, "", f"poolcli: {said}\n")
    assert contents("out") == before


def test_outputs_of_earlier_runs_that_are_gone_are_not_merged(arrays: Path, cli: Any) -> None:
    assert pooled(cli, "out").code == 0
    Path("in/0.npy").unlink()
    Path("out/0.npy").unlink()
    sharded(cli, "out", "1/2", "2/2", more=("--overwrite",))
    assert cli("merge", "out").out == "out/.poolcli.jsonl: 2 shards, 11 outputs\n"


def test_merging_again_checks_what_is_merged(arrays: Path, cli: Any) -> None:
    sharded(cli, "out", "1/2", "2/2")
    assert cli("merge", "out").code == 0
    before = contents("out")
    again = cli("merge", "out")
    assert (again.code, again.out, again.err) == (0, "out/.poolcli.jsonl: nothing to merge, 12 outputs\n", "")
    assert contents("out") == before


@pytest.mark.slow
def test_a_merge_that_was_killed_can_be_repeated(arrays: Path, cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pooled(cli, "one")
    unlink, number = os.unlink, 0

    def killed_at_a_part(path: str, *more: Any, **options: Any) -> None:
        nonlocal number
        number += "-of-" in str(path)
        if number == killed_at:
            os._exit(9)
        unlink(path, *more, **options)

    for killed_at in (1, 2, 3):
        folder, number = f"out{killed_at}", 0
        sharded(cli, folder, "1/3", "2/3", "3/3")
        child = os.fork()
        if not child:
            monkeypatch.setattr(os, "unlink", killed_at_a_part)
            merge(folder)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        assert merge(folder).outputs == 12
        assert contents(folder) == contents("one")


def test_parts_without_those_before_are_not_taken_for_merged(arrays: Path, cli: Any) -> None:
    sharded(cli, "out", "1/2", "2/2")
    assert cli("merge", "out").code == 0
    assert pooled(cli, "out", "--shard", "2/2", "--overwrite").code == 0
    result = cli("merge", "out")
    assert (result.code, result.err) == (
        1, "poolcli: out: shard 1/2 is not there; run what is missing, then merge again\n"
    )  # fmt: skip


def test_a_folder_that_is_none_is_refused(folder: Path, cli: Any) -> None:
    assert cli("merge", "nowhere").err == "poolcli: nowhere: No such file or directory\n"
    assert (
        cli("merge", "x.npy").err
        == "poolcli: x.npy: is a file; merge takes the output of the shards, a folder or a .zarr\n"
    )


@pytest.mark.parametrize("word", ["0/2", "3/2", "1", "a/b", "1/0", "-1/2", "1/9999999"])
def test_a_word_that_names_no_shard_is_refused(word: str, folder: Path, cli: Any) -> None:
    result = cli("avg", ".", "-o", "out/", "-k", "2", f"--shard={word}")
    said = f"poolcli: --shard is '{word}'; write I/N, such as 1/8 for the first of eight\n"
    assert (result.code, result.out, result.err) == (2, "", said)


def test_one_input_has_nothing_to_share_out(folder: Path, cli: Any) -> None:
    result = cli("avg", "x.npy", "-o", "y.npy", "-k", "2", "--shard", "1/2")
    said = (
        "poolcli: --shard divides several inputs (a folder, a quoted glob or a list), or one array that goes to .zarr\n"
    )
    assert (result.code, result.err) == (2, said)
    assert not Path(NAME).exists()


@pytest.fixture
def volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An array of 41x47x51 in a .npy file."""
    monkeypatch.chdir(tmp_path)
    np.save("in.npy", np.random.default_rng(0).integers(0, 99, (1, 1, 41, 47, 51), "uint8"))
    return tmp_path


AVERAGE = "avg", "in.npy", "-k", "3", "-s", "2", "-p", "1", "--max-memory", "200K", "--chunks", "8"


@pytest.mark.parametrize("more", [(), ("--shards", "16")], ids=["chunks", "shards"])
def test_one_array_is_shared_out_in_regions_and_merged_in_one_step(volume: Path, cli: Any, more: Any) -> None:
    assert cli(*AVERAGE, *more, "-o", "one.zarr").code == 0
    regions = 0
    for shard in ("3/3", "1/3", "2/3"):
        result = cli(*AVERAGE, *more, "-o", "three.zarr", "--shard", shard)
        assert result.code == 0, result.err
        said = next(line for line in result.out.splitlines() if f"shard {shard}: " in line)
        regions += int(said.split(f"shard {shard}: ")[1].split()[0])
        assert f"of {regions} regions" in said or shard != "2/3"
        assert not Path("three.zarr").exists()
    assert regions > 3
    merged = cli("merge", "three.zarr")
    assert (merged.code, merged.out, merged.err) == (0, "three.zarr: 3 shards, 1 output\n", "")
    assert contents("three.zarr") == contents("one.zarr")
    assert cli("merge", "three.zarr").out == "three.zarr: nothing to merge, 1 output\n"
    assert contents("three.zarr") == contents("one.zarr")
    assert [name for name in os.listdir() if name.startswith(".")] == []


def test_an_array_is_not_merged_before_all_shards_have_ended(volume: Path, cli: Any) -> None:
    def said(*words: str) -> tuple[int, str]:
        result = cli(*words)
        return result.code, result.err

    assert said("merge", "out.zarr") == (
        2, "poolcli: out.zarr: it has no shards; pool with --shard 1/4, 2/4, ... first\n"
    )  # fmt: skip
    assert cli(*AVERAGE, "-o", "out.zarr", "--shard", "2/3").code == 0
    assert said("merge", "out.zarr") == (
        1, "poolcli: out.zarr: shards 1/3, 3/3 are not done: not run, stopped or still running; pool again with "
        "--resume, then merge\n",
    )  # fmt: skip
    assert cli(*AVERAGE, "-o", "out.zarr", "--shard", "2/2").code == 0
    folder = next(name for name in os.listdir() if name.endswith(".shards.part"))
    assert said("merge", "out.zarr")[0] == 2
    assert folder.startswith(".out.zarr.")


@pytest.mark.parametrize("content", ["", "{}", "[]", '"text"', "[" * 100_000])
def test_a_damaged_note_of_a_shard_is_one_line(content: str, volume: Path, cli: Any) -> None:
    assert cli(*AVERAGE, "-o", "out.zarr", "--shard", "1/1").code == 0
    (note,) = Path().glob(".*/.*.ended")
    note.write_text(content)
    merged = cli("merge", "out.zarr")
    assert (merged.code, merged.err.count("\n"), "is damaged" in merged.err) == (1, 1, True)


def test_a_shard_of_an_array_that_was_stopped_goes_on(volume: Path, cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli(*AVERAGE, "-o", "one.zarr").code == 0
    monkeypatch.setattr("poolcli.formats.resumable.JOURNAL_INTERVAL", 0)
    pool, made = tiles.pool_aligned, list[Region]()

    def pooling(work: Any, region: Region, slab: Any) -> Any:
        made.append(region)
        if len(made) == 3:
            raise Stopped(130, "interrupted")
        return pool(work, region, slab)

    monkeypatch.setattr(tiles, "pool_aligned", pooling)
    with pytest.raises(Stopped):
        cli(*AVERAGE, "-o", "out.zarr", "--shard", "1/1")
    assert cli("merge", "out.zarr").code == 1
    for _ in range(2):  # what was not noted is made, and then nothing
        assert cli(*AVERAGE, "-o", "out.zarr", "--shard", "1/1", "--resume").code == 0
    assert made.count(made[0]) == 1  # it was noted
    assert made.count(made[-1]) == 1
    assert len({region.outputs for region in made}) == 6
    assert len(made) <= 6 + 2  # the one that was stopped, and one that was on its way
    assert cli("merge", "out.zarr").code == 0
    assert contents("out.zarr") == contents("one.zarr")


def test_a_shard_of_an_array_that_has_ended_is_not_made_again(
    volume: Path, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli(*AVERAGE, "-o", "out.zarr", "--shard", "1/1").code == 0
    monkeypatch.setattr(tiles, "pool_aligned", None)
    assert cli(*AVERAGE, "-o", "out.zarr", "--shard", "1/1", "--resume").code == 0
    assert cli("merge", "out.zarr").code == 0


def test_shards_replace_an_array_only_where_that_is_asked_for(volume: Path, cli: Any) -> None:
    assert cli(*AVERAGE, "-o", "out.zarr").code == 0
    assert cli(*AVERAGE, "-o", "out.zarr", "--shard", "1/1").code == 2
    assert cli("max", *AVERAGE[1:], "-o", "out.zarr", "--shard", "1/1", "--overwrite").code == 0
    before = contents("out.zarr")
    assert cli("merge", "out.zarr").code == 0
    assert contents("out.zarr") != before


def test_an_input_that_is_read_as_a_whole_cannot_be_shared_out(volume: Path, cli: Any) -> None:
    np.savez_compressed("in.npz", np.load("in.npy"))
    result = cli("avg", "in.npz", "-o", "out.zarr", "-k", "2", "--shard", "1/2")
    assert (result.code, result.err) == (
        2, "poolcli: in.npz: --shard needs an input that can be read in parts: .zarr, .h5, or a .npy in C order\n"
    )  # fmt: skip
