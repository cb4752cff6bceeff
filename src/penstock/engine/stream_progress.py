"""Where every source of a query stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from penstock.checkpoint import OffsetSeq, OffsetSeqMetadata
from penstock.engine.data_stream import DataStream
from penstock.engine.offsets import Offset
from penstock.errors import SourceCountError


class StreamProgress(Mapping[DataStream, Offset]):
    """An immutable mapping of sources to offsets. A source that has none yet is not in it."""

    __slots__ = ("_offsets",)

    def __init__(self, offsets: Mapping[DataStream, Offset] | None = None) -> None:
        self._offsets = dict(offsets or {})

    def __getitem__(self, source: DataStream) -> Offset:
        return self._offsets[source]

    def __iter__(self) -> Iterator[DataStream]:
        return iter(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets)

    def __add__(self, updates: Mapping[DataStream, Offset]) -> StreamProgress:
        """The reference's `++`: a new progress in which the updates win."""
        return StreamProgress({**self._offsets, **updates})

    def __str__(self) -> str:
        shown = ",".join(f"{source}: {offset.json}" for source, offset in self._offsets.items())
        return f"{{{shown}}}"

    __repr__ = __str__

    def to_offset_seq(
        self,
        sources: Sequence[DataStream],
        metadata: OffsetSeqMetadata | None,
        source_ids: Sequence[str] | None = None,
    ) -> OffsetSeq:
        """The log entry that records this progress for the sources in their order.

        By position, a source without an offset has its place all the same. By name, it is left
        out, and a source that is used twice is recorded once, as Spark has it.
        """
        offsets = [self.get(source) for source in sources]
        texts = [offset.json if offset is not None else None for offset in offsets]
        if source_ids is None:
            return OffsetSeq(tuple(texts), metadata)
        pairs = zip(source_ids, texts, strict=True)
        by_name = {name: text for name, text in pairs if text is not None}
        return OffsetSeq(tuple(by_name.values()), metadata, tuple(by_name))

    @classmethod
    def from_offset_seq(
        cls,
        offset_seq: OffsetSeq,
        sources: Sequence[DataStream],
        source_ids: Sequence[str] | None = None,
    ) -> StreamProgress:
        """The progress a log entry records.

        An entry without names is matched by position, and must have as many offsets as there are
        sources. An entry with names is matched by name: names unknown to the query are dropped.
        Sources without names are named by their position, and must be those of the entry.
        """
        if offset_seq.source_ids is not None:
            names = positions_of(sources) if source_ids is None else source_ids
            by_name = dict(zip(offset_seq.source_ids, offset_seq.offsets, strict=True))
            if source_ids is None and not by_name.keys() <= set(names):
                raise SourceCountError(
                    f"The checkpoint offsets are of the sources [{', '.join(by_name)}], and the "
                    "sources of the query have no names but their positions "
                    f"[{', '.join(names)}]. Cannot continue."
                )
            texts = [by_name.get(name) for name in names]
        elif len(offset_seq.offsets) == len(sources):
            texts = list(offset_seq.offsets)
        else:
            raise SourceCountError(
                f"There are [{len(offset_seq.offsets)}] sources in the checkpoint offsets and now "
                f"there are [{len(sources)}] sources requested by the query. Cannot continue."
            )
        return cls(
            {
                source: source.deserialize_offset(text)
                for source, text in zip(sources, texts, strict=True)
                if text is not None
            }
        )


def positions_of(sources: Sequence[DataStream]) -> list[str]:
    """The names that sources have in a log with names when they were given none."""
    return [str(index) for index in range(len(sources))]
