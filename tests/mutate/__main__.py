"""`python -m tests.mutate`: how many changes of the program the tests notice, and which they do not.

    python -m tests.mutate --count 200 --seed 1 --jobs 2

Mutants are drawn by chance. Each is tried on the tests that run the changed line, then on those that run another line
of its file or are near to it, until one fails or `--seconds` of tests have passed. `.mutants` keeps what each test
runs, and the trials, which are not repeated. Remove it when the program or its tests have changed.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory

from tests.mutate.equivalent import EQUIVALENT
from tests.mutate.mutants import Mutant, mutants
from tests.mutate.trials import ROOT, TARGETS, Trial, copy_tree, measured, run_trial

Drawn = tuple[Mutant, tuple[str, ...]]


def drawn(count: int, seed: int, only: str) -> list[Drawn]:
    """Mutants by chance, from all files alike, and the tests that are nearest to each; of files named like `only`."""
    every = [
        (mutant, nearest)
        for pattern, nearest in TARGETS.items()
        for path in sorted(ROOT.glob(pattern))
        if only in str(path.relative_to(ROOT))
        for mutant in mutants(str(path.relative_to(ROOT)), path.read_text())
    ]
    return random.Random(seed).sample(every, min(count, len(every)))  # noqa: S311  # no secret


def tried(chosen: list[Drawn], jobs: int, seconds: float, folder: Path) -> Iterator[Trial]:
    """The trials, as they end; each of `jobs` processes has a tree of its own."""
    if not chosen:
        return
    with TemporaryDirectory(prefix="mutants-") as trees_in, ThreadPoolExecutor(jobs) as pool:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs):
            trees.put(tree := copy_tree(Path(trees_in, str(number))))
            reach = measured(folder, tree)

        def one(mutant: Mutant, nearest: tuple[str, ...]) -> Trial:
            tree = trees.get()
            try:
                return run_trial(mutant, reach.tests(mutant.path, mutant.line, nearest, seconds), tree)
            finally:
                trees.put(tree)

        yield from pool.map(lambda pair: one(*pair), chosen)


def report(trials: list[Trial]) -> None:
    """Counts, and the survivors by name: those that change nothing apart, each with its reason."""
    outcomes = Counter("equivalent" if t.mutant in EQUIVALENT else t.outcome for t in trials)
    rooms = Counter((t.mutant.split("::")[0], t.outcome) for t in trials)
    for path in sorted({path for path, _ in rooms}):
        print(f"{path:<45} killed {rooms[path, 'killed']:>3}, survived {rooms[path, 'survived']:>3}")
    meant = outcomes["killed"] + outcomes["survived"]
    print(f"killed {outcomes['killed']} of {meant}, {outcomes['equivalent']} more change nothing that can be seen")
    for trial in trials:
        if trial.outcome != "killed":
            why = EQUIVALENT.get(trial.mutant)
            print(f"  {trial.outcome}: line {trial.line} {trial.mutant}", f"({why})" if why else "")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutate", description="Tests of the tests.")
    parser.add_argument("--count", type=int, default=200, help="mutants to draw")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--only", default="", help="a part of the paths of the files to mutate")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time")
    parser.add_argument("--seconds", type=float, default=120, help="of tests for each mutant at most")
    parser.add_argument("--folder", type=Path, default=Path(".mutants"), help="what is kept between runs")
    given = parser.parse_args()
    folder = given.folder.resolve()
    folder.mkdir(exist_ok=True)
    file = folder / "trials.jsonl"
    known = [Trial(**json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []
    names = {trial.mutant for trial in known}
    chosen = drawn(given.count, given.seed, given.only)
    with file.open("a") as results:
        for trial in tried([pair for pair in chosen if pair[0].name not in names], given.jobs, given.seconds, folder):
            if trial.outcome != "undecided":  # it is tried again
                results.write(json.dumps(asdict(trial)) + "\n")
                results.flush()
            print(f"{trial.outcome:<9} {trial.seconds:>6} s  {trial.mutant}  {trial.by}", flush=True)
            known.append(trial)
    wanted = {mutant.name for mutant, _ in chosen}
    report([trial for trial in known if trial.mutant in wanted])


if __name__ == "__main__":
    main()
