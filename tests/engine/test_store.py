"""The folder of compiled kernels: what is not this user's own, or does not agree with itself, is never read."""

from __future__ import annotations

import grp
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from poolcli import AvgPool
from poolcli.engine import compiled
from poolcli.engine.choose import KernelError
from poolcli.engine.compiled import kernel_cache as store
from poolcli.engine.compiled.choice import Kernel, choose_kernel
from poolcli.engine.compiled.kernel_cache import Code
from poolcli.plan.plan import whole
from poolcli.system.lazy_imports import COMPILED
from tests.conftest import reopen_kernel_cache

NAME, CODE_KEPT = "slide-of-a-test", Code("symbol", b"\n{}\x00machine code\n")


@pytest.fixture
def place(own_kernel_cache: None) -> Path:
    """The folder of the entries in a cache of one's own, with one entry in it, which this process may use."""
    keep(NAME)
    return store.folder()


def keep(name: str, code: Code = CODE_KEPT) -> None:
    store.keep(name, code)


def test_what_was_kept_is_found_as_it_was(place: Path) -> None:
    assert store.read(NAME) == CODE_KEPT
    assert store.read("another") is None
    assert [path.name for path in place.iterdir()] == [f"{NAME}.kernel"]
    created = place.parents[1], place.parent, place, place / f"{NAME}.kernel"
    assert [oct(path.stat().st_mode & 0o777) for path in created] == ["0o700", "0o700", "0o700", "0o600"]


def changed(place: int, line: bytes) -> Callable[[bytes], bytes]:
    """Another line in place of one of the first two."""
    return lambda text: b"\n".join(line if i == place else own for i, own in enumerate(text.split(b"\n", 2)))


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda text: b"",
    "no code": lambda text: text.partition(b"\n")[0],
    "half a hash": lambda text: text[:40],
    "half the code": lambda text: text[:-9],
    "more code": lambda text: text + b"\0",
    "a flipped bit": lambda text: text[:-3] + bytes([text[-3] ^ 1]) + text[-2:],
    "bytes": lambda text: b"\xff\xfe\n\xff\n" + text,
    "with another function": changed(1, b"system"),
    "with another hash": changed(0, b"0" * 64),
}


def test_an_entry_of_another_kernel_or_version_is_not_read(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(place / f"{NAME}.kernel", place / "halve.kernel")
    assert store.read("halve") is None
    monkeypatch.setattr(store, "key", lambda: "numba 0")
    assert store.read(NAME) is None


@pytest.mark.parametrize("damage", DAMAGE)
def test_an_entry_that_does_not_agree_with_itself_is_not_read_and_replaced(damage: str, place: Path) -> None:
    entry = place / f"{NAME}.kernel"
    entry.write_bytes(DAMAGE[damage](entry.read_bytes()))
    assert store.read(NAME) is None
    keep(NAME)
    assert store.read(NAME) == CODE_KEPT


def test_the_cache_tells_what_it_holds_and_whether_it_can_be_used(place: Path) -> None:
    size = (place / f"{NAME}.kernel").stat().st_size
    (place / ".other.part").write_bytes(b"x")
    found = {"folder": str(place), "kernels": [NAME], "bytes": size}
    assert store.info() == {**found, "usable": True}
    place.chmod(0o777)
    assert store.info() == {**found, "usable": False}


def test_links_pipes_and_files_of_others_are_no_entries(place: Path, tmp_path: Path) -> None:
    entry = place / f"{NAME}.kernel"
    kept = tmp_path / "kept"
    entry.rename(kept)
    entry.symlink_to(kept)
    assert store.read(NAME) is None
    keep(NAME)
    assert (entry.is_symlink(), store.read(NAME)) == (False, CODE_KEPT)
    entry.unlink()
    os.mkfifo(entry)
    assert store.read(NAME) is None
    entry.unlink()
    entry.mkdir()
    assert store.read(NAME) is None
    keep(NAME)  # which fails, and leaves nothing
    assert [path.name for path in place.iterdir()] == [entry.name]
    entry.rmdir()
    keep(NAME)
    entry.chmod(0o620)
    assert store.read(NAME) is None
    if os.getuid() == 0:
        entry.chmod(0o600)
        os.chown(entry, 12345, -1)
        assert store.read(NAME) is None


def test_a_kernel_is_announced_where_it_is_built_and_not_where_it_is_found(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr("poolcli.engine.choose.announce", told.append)
    monkeypatch.setattr(compiled, "build", lambda kernel: CODE_KEPT)
    monkeypatch.setattr(compiled, "loaded", lambda code: code)
    choice = choose_kernel(whole(AvgPool(2, strides=2).plan((1, 1, 8, 8)))).kernel
    found: list[object] = []
    for _ in range(2):
        monkeypatch.setattr(compiled, "_kernels", {})
        found.append(compiled.load(choice))
    assert found == [CODE_KEPT] * 2
    assert told == ["compiling kernels for float32 (first run only)"]


def test_a_kernel_that_cannot_be_built_is_tried_once(own_kernel_cache: None, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[str] = []

    def build(kernel: Kernel) -> Code:
        tries.append(kernel.name)
        raise OSError("no compiler")

    monkeypatch.setattr(compiled, "build", build)
    monkeypatch.setattr(compiled, "_kernels", {})
    monkeypatch.setattr(compiled, "_failed", {})
    choice, before = choose_kernel(whole(AvgPool(3, strides=2).plan((1, 1, 9, 9)))).kernel, COMPILED.seconds
    for _ in range(2):
        with pytest.raises(
            KernelError, match=r"^numba cannot compile kernels here \(OSError: no compiler\); use engine"
        ):
            compiled.load(choice)
    assert (tries, COMPILED.seconds > before) == ([choice.name], True)


def test_a_kernel_is_built_after_what_kept_it_from_being_built_has_passed(
    own_kernel_cache: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    stacks = ["too deep", "less deep"]

    def build(kernel: Kernel) -> Code:
        if stacks.pop(0) == "too deep":
            raise RecursionError("maximum recursion depth exceeded")
        return CODE_KEPT

    monkeypatch.setattr(compiled, "build", build)
    monkeypatch.setattr(compiled, "loaded", lambda code: code)
    monkeypatch.setattr(compiled, "_kernels", {})
    monkeypatch.setattr(compiled, "_failed", {})
    choice = choose_kernel(whole(AvgPool(3, strides=2).plan((1, 1, 9, 9)))).kernel
    with monkeypatch.context() as debugging:
        debugging.setattr(compiled, "is_switched_off", lambda: True)
        with pytest.raises(KernelError, match="NUMBA_DISABLE_JIT"):
            compiled.load(choice)
    with pytest.raises(KernelError, match="RecursionError: maximum recursion depth exceeded"):
        compiled.load(choice)
    found: object = compiled.load(choice)
    assert found == CODE_KEPT


def test_no_kernel_is_built_where_llvm_would_run_out_of_memory(
    own_kernel_cache: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "build", lambda kernel: CODE_KEPT)
    monkeypatch.setattr(compiled, "loaded", lambda code: code)
    monkeypatch.setattr(compiled, "_kernels", {})
    choice = choose_kernel(whole(AvgPool(3, strides=2).plan((1, 1, 9, 9)))).kernel
    with monkeypatch.context() as short_of_memory:
        short_of_memory.setattr(compiled, "LLVM_BYTES", 1 << 60)
        with pytest.raises(MemoryError):
            compiled.load(choice)
    found: object = compiled.load(choice)
    assert found == CODE_KEPT


def reach(path: Path) -> None:
    path.chmod(0o777)


def give(path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(path, 12345, -1)


@pytest.mark.parametrize("level", [0, 1, 2, 3], ids=["the folder", "poolcli", "the cache", "above it"])
@pytest.mark.parametrize("change", [reach, give])
def test_a_folder_that_others_could_exchange_is_not_used(
    change: Callable[[Path], None], level: int, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reopen_kernel_cache()
    change([place, *place.parents][level])
    before = sorted(place.iterdir())
    assert store.read(NAME) is None
    keep("new")
    assert sorted(place.iterdir()) == before
    [place, *place.parents][level].chmod(0o700)


def test_a_group_of_ones_own_may_write_to_the_cache_and_no_other(place: Path) -> None:
    group, cache = grp.getgrgid(os.getgid()), place.parents[1]
    if os.getuid() != 0 or group.gr_name != "root" or set(group.gr_mem) - {"root"}:
        pytest.skip("only root can give a folder to another group")
    cache.chmod(0o775)
    for owner, found in ((0, CODE_KEPT), (12345, None), (grp.getgrnam("daemon").gr_gid, None)):
        os.chown(cache, -1, owner)
        reopen_kernel_cache()
        assert store.read(NAME) == found
    os.chown(cache, -1, 0)
    cache.chmod(0o777)
    reopen_kernel_cache()
    assert store.read(NAME) is None


@pytest.mark.parametrize("level", [0, 1], ids=["the folder", "poolcli"])
def test_a_folder_behind_a_link_is_not_used(level: int, place: Path, tmp_path: Path) -> None:
    reopen_kernel_cache()
    linked = [place, *place.parents][level]
    linked.rename(tmp_path / "real")
    linked.symlink_to(tmp_path / "real")
    assert store.read(NAME) is None
    keep("new")
    assert sorted(path.name for path in (tmp_path / "real").rglob("*.kernel")) == [f"{NAME}.kernel"]
    assert store.clear() == 0
    assert [path.name for path in (tmp_path / "real").rglob("*.kernel")] == [f"{NAME}.kernel"]


def test_the_cache_itself_may_be_a_link_to_a_safe_place(place: Path, tmp_path: Path) -> None:
    reopen_kernel_cache()
    (tmp_path / "cache").rename(tmp_path / "real")
    (tmp_path / "cache").symlink_to(tmp_path / "real")
    assert store.read(NAME) == CODE_KEPT


def test_clearing_removes_entries_of_every_version_and_nothing_else(place: Path, tmp_path: Path) -> None:
    old, mine = place.with_name("kernels-of-old"), place / "mine.txt"
    old.mkdir()
    (old / "a.kernel").write_bytes(b"12345")
    (old / ".b.part").write_bytes(b"")
    mine.write_text("mine")
    (place.parent / "notes").mkdir()
    (place.parent / "notes" / "a.kernel").write_text("mine")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.kernel").write_text("mine")
    (place.parent / "kernels-link").symlink_to(tmp_path / "elsewhere")
    size = (place / f"{NAME}.kernel").stat().st_size
    assert store.clear() == size + 5
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert left == [f"cache/poolcli/{place.name}/mine.txt", "cache/poolcli/notes/a.kernel", "elsewhere/a.kernel"]
    assert not old.exists()


def test_clearing_leaves_no_folder_where_nothing_else_is(place: Path) -> None:
    assert store.clear() > 0
    assert not place.parent.exists()
    assert place.parents[1].exists()


def test_a_change_of_any_module_changes_the_key(tmp_path: Path) -> None:
    package, copy = Path(store.__file__).parent, tmp_path / "compiled"
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    before = store.sources_hash(copy)
    assert before == store.sources_hash(package)
    for file in (copy / "choice.py", copy / "kernels" / "sliding.py"):
        file.write_bytes(file.read_bytes() + b"\n")
        assert before != (before := store.sources_hash(copy))


def test_the_cache_lies_where_the_system_has_its_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for value, root in (("/caches", Path("/caches/poolcli")), ("caches", None), ("", None)):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert store.root() == (root or tmp_path / ".cache/poolcli")


@pytest.mark.parametrize("home", ["", "/", "//", "home"])
def test_without_a_home_there_is_no_cache(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", home)
    reopen_kernel_cache()
    assert (store.opened(), store.root()) == (None, Path("/dev/null/poolcli"))


def test_other_versions_have_a_folder_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    today = store.folder()
    monkeypatch.setattr(store, "_version", lambda name: f"{name} 99")
    store.key.cache_clear()
    assert store.folder() != today
    monkeypatch.undo()
    store.key.cache_clear()
    assert store.folder() == today
