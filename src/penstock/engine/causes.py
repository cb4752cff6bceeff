"""The chain of an error's causes."""

from __future__ import annotations

from collections.abc import Iterator


def with_causes(error: BaseException | None, *, implicit: bool = True) -> Iterator[BaseException]:
    """An error and its causes, each once: `raise e from e` makes an error its own cause.

    The cause of an error is its `__cause__`; without one, and if `implicit`, its `__context__`.
    """
    seen: list[BaseException] = []
    while error is not None and not any(error is one for one in seen):
        yield error
        seen.append(error)
        error = error.__cause__ or (error.__context__ if implicit else None)
