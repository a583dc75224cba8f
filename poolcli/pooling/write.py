"""Where the results of a job go: into the file itself where its format can, else into memory until the end."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, fields
from hashlib import sha256
from math import prod
from typing import TYPE_CHECKING, Any

from poolcli.formats import Metadata, RegionWriter, Spec, WriteOptions, format_of, open_writer, write
from poolcli.formats.fingerprint import Fingerprint
from poolcli.formats.records import CallbackWriter, slices
from poolcli.layouts import convert_layout
from poolcli.plan import Plan
from poolcli.plan.region import Ranges
from poolcli.pooling.blocks import LARGEST
from poolcli.pooling.metadata import scaled_metadata
from poolcli.pooling.outcome import Outcome, Settings, Stored
from poolcli.pooling.rescale import rescaled
from poolcli.pooling.tiles import HELD, TILE, bytes_of
from poolcli.version import VERSION

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(slots=True)
class Writer:
    """Writes the results of one job, whose input was as `source` says; `notes` say what could not be kept."""

    outcome: Outcome
    plan: Plan
    settings: Settings
    source: Fingerprint
    notes: list[str] = field(default_factory=list)

    def write(self, target: Stored, array: NDArray[Any], metadata: Metadata | None) -> None:
        """Writes one result whole; `metadata` is that of the input, None for what has none."""
        header = self.outcome.header
        mode = header.mode if header else None
        if self._rescales(target):
            array, note = rescaled(array, self.settings.rescale or ())
            self.notes.append(note)
            mode = None
        self.notes += write(
            str(target.path),
            convert_layout(array, self.plan.layout, target.layout),
            target.layout,
            key=self._key(target),
            metadata=scaled_metadata(metadata, self.plan, target.layout) if metadata else None,
            mode=mode,
            options=self._options(adds=target.key is not None),
        )

    def _rescales(self, target: Stored) -> bool:
        return self.settings.rescale is not None and target is self.outcome.output

    def open_writer(self, stack: ExitStack, target: Stored, metadata: Metadata | None) -> RegionWriter:
        """Takes one result region by region; it is written when the stack is left."""
        import numpy as np

        direct = self._direct(target, metadata)
        if direct is not None:
            open_writer = stack.enter_context(direct)
            self.notes += open_writer.notes
            return open_writer
        dtype = self.plan.output_dtype if self._rescales(target) else target.dtype
        whole = np.empty(self.plan.output_shape, dtype)

        def finish(kind: object, *_: object) -> None:
            if kind is None:
                self.write(target, whole, metadata)

        def put(region: Ranges, array: NDArray[Any]) -> None:
            whole[slices(region)] = array

        stack.push(finish)
        return CallbackWriter(put)

    def _direct(self, target: Stored, metadata: Metadata | None) -> AbstractContextManager[RegionWriter] | None:
        """The file itself as a sink, None where it takes no regions or has its axes in another order."""
        if target.layout != self.plan.layout:
            return None
        path = str(target.path)
        kept = scaled_metadata(metadata, self.plan, target.layout) if metadata else Metadata()
        spec = Spec(target.shape, target.dtype, target.layout, self._key(target), kept)
        return open_writer(path, spec, self._options(self._identity(path), target.key is not None))

    def _options(self, identity: str | None = None, adds: bool = False) -> WriteOptions:
        asked = self.settings
        each = self.plan.output_shape and bytes_of(self.plan) // max(1, prod(self.plan.output_shape))
        room = LARGEST if asked.max_memory is None else min(LARGEST, asked.max_memory // HELD)
        most = max(1, room // max(1, each or 1))
        return WriteOptions(
            asked.overwrite, asked.quality, identity, adds, asked.chunks, asked.shards, most, asked.part, asked.resume
        )

    def _key(self, target: Stored) -> str | None:
        """What the array is called in the file: as it was asked for, or else as the input's."""
        header = self.outcome.header
        return target.key or (header.key if header else None)

    def _identity(self, path: str) -> str | None:
        """Names long work, so that it is only continued where it is the same: the plan and the input's state."""
        asked = self.settings
        if asked.part is None and (not asked.resume or not format_of(path).resumable or bytes_of(self.plan) <= TILE):
            return None
        source = self.outcome.job.source
        stored = (asked.chunks, asked.shards, asked.part and (asked.part[1], asked.max_memory))
        planned = [getattr(self.plan, each.name) for each in fields(self.plan)]
        text = repr((VERSION, planned, source, self.source[:2], stored))
        return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]
