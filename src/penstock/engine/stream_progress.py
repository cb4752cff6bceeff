"""The offsets of all sources of a query."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, Sequence

from penstock.checkpoint import OffsetSeq, OffsetSeqMetadata
from penstock.engine.data_stream import DataStream
from penstock.engine.error_text import shown
from penstock.engine.offsets import Offset
from penstock.errors import SourceCountError


class StreamProgress(Mapping[DataStream, Offset]):
    """An immutable mapping of sources to offsets. A source without an offset is not in it."""

    __slots__ = ("_offsets",)

    def __init__(self, offsets: Mapping[DataStream, Offset] | None = None) -> None:
        self._offsets = dict(offsets or {})

    def __getitem__(self, source: DataStream) -> Offset:
        return self._offsets[source]

    def __iter__(self) -> Iterator[DataStream]:
        return iter(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets)

    # What Mapping implements itself calls __getitem__ and __iter__ once for each source.

    def get(  # type: ignore[override]
        self, source: DataStream, default: Offset | None = None
    ) -> Offset | None:
        return self._offsets.get(source, default)

    def items(self) -> ItemsView[DataStream, Offset]:
        return self._offsets.items()

    def __add__(self, updates: Mapping[DataStream, Offset]) -> StreamProgress:
        """A new progress in which `updates` take precedence; `++` in the reference."""
        return StreamProgress({**self._offsets, **updates})

    def __str__(self) -> str:
        pairs = [f"{shown(source)}: {offset.json}" for source, offset in self._offsets.items()]
        return f"{{{','.join(pairs)}}}"

    __repr__ = __str__

    def to_offset_seq(
        self,
        sources: Sequence[DataStream],
        metadata: OffsetSeqMetadata | None,
        source_ids: Sequence[str] | None = None,
    ) -> OffsetSeq:
        """The log entry for this progress, with the sources in the given order.

        Without names, a source without an offset has a void entry. With names, it is left out, and
        a source that is used twice is recorded once, as in Spark.
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
        """The progress that a log entry records.

        An entry without names is matched by position: SourceCountError if the number of sources
        differs. An entry with names is matched by name, and names that the query does not have are
        dropped. Sources without names match by their position as name: SourceCountError if the
        entry has other names.
        """
        if offset_seq.source_ids is not None:
            names = positions_of(sources) if source_ids is None else source_ids
            by_name = dict(zip(offset_seq.source_ids, offset_seq.offsets, strict=True))
            if source_ids is None and not by_name.keys() <= set(names):
                raise SourceCountError(
                    f"The checkpoint has offsets of the sources [{', '.join(by_name)}], but the "
                    "sources of the query have no names and are identified by their positions "
                    f"[{', '.join(names)}]. Cannot continue. Give the sources the names that they "
                    "have in the checkpoint."
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
    """The names of sources without names in a log with names: their positions."""
    return [str(index) for index in range(len(sources))]
