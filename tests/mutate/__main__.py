"""`python -m tests.mutate`: how many changes of the program the tests notice, and which they do not.

    python -m tests.mutate --count 200 --seed 1 --jobs 2 --results mutations.jsonl

Mutants are drawn by chance; those that the file of results holds already are not tried again.
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
from tests.mutate.trials import ROOT, TARGETS, Trial, copy_tree, run_trial

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


def tried(chosen: list[Drawn], jobs: int, everything: bool) -> Iterator[Trial]:
    """The trials, as they end; each of `jobs` processes has a tree of its own."""
    with TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(jobs) as pool:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs):
            trees.put(copy_tree(Path(folder, str(number))))

        def one(mutant: Mutant, nearest: tuple[str, ...]) -> Trial:
            tree = trees.get()
            try:
                return run_trial(mutant, nearest, tree, everything)
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
        if trial.outcome == "survived":
            print(f"  line {trial.line} {trial.mutant}", f"({why})" if (why := EQUIVALENT.get(trial.mutant)) else "")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutate", description="Tests of the tests.")
    parser.add_argument("--count", type=int, default=200, help="mutants to draw")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--only", default="", help="a part of the paths of the files to mutate")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time")
    parser.add_argument("--nearest", action="store_true", help="run the nearest tests alone, not all of the profile")
    parser.add_argument("--results", type=Path, default=Path("mutations.jsonl"), help="where trials are kept")
    given = parser.parse_args()
    known = (
        [Trial(**json.loads(line)) for line in given.results.read_text().splitlines()] if given.results.exists() else []
    )
    names = {trial.mutant for trial in known}
    chosen = drawn(given.count, given.seed, given.only)
    with given.results.open("a") as results:
        for trial in tried([pair for pair in chosen if pair[0].name not in names], given.jobs, not given.nearest):
            results.write(json.dumps(asdict(trial)) + "\n")
            results.flush()
            print(f"{trial.outcome:<9} {trial.seconds:>6} s  {trial.mutant}  {trial.by}", flush=True)
            known.append(trial)
    wanted = {mutant.name for mutant, _ in chosen}
    report([trial for trial in known if trial.mutant in wanted])


if __name__ == "__main__":
    main()
