"""An object store in memory, which records its requests and fails when it is told to."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.checkpoint import ObjectStore
from penstock.checkpoint.object_store import missing


class MemoryStore(ObjectStore):
    """The objects are `(data, mark)` by name.

    The lists `before_...` and `after_...` have the errors of the next requests of a kind: `before`,
    the request is not carried out, `after`, it is.
    """

    def __init__(self, *, keeps_marks: bool = True) -> None:
        self.keeps_marks = keeps_marks
        self.objects: dict[str, tuple[bytes, str | None]] = {}
        self.requests: list[str] = []
        self.before_put: list[OSError] = []
        self.after_put: list[OSError] = []
        self.before_head: list[OSError] = []
        self.before_delete: list[OSError] = []

    @property
    def root(self) -> str:
        return "memory:/checkpoint"

    def put_if_absent(self, name: str, data: bytes, mark: str) -> None:
        self.requests.append(f"put {name}")
        _fail(self.before_put)
        if name in self.objects:
            raise FileExistsError(name)
        self.objects[name] = (data, mark if self.keeps_marks else None)
        _fail(self.after_put)

    def mark_of(self, name: str) -> str | None:
        self.requests.append(f"head {name}")
        _fail(self.before_head)
        return self._find(name)[1]

    def get(self, name: str) -> bytes:
        self.requests.append(f"get {name}")
        return self._find(name)[0]

    def exists(self, name: str) -> bool:
        return name in self.objects or not self.is_empty(name)

    def list_names(self, directory: str) -> list[str]:
        self.requests.append(f"list {directory}")
        below = (name.removeprefix(f"{directory}/") for name in self._below(directory))
        return [name for name in below if "/" not in name]

    def list_directories(self, directory: str) -> list[str]:
        self.requests.append(f"list {directory}")
        below = (name.removeprefix(f"{directory}/") for name in self._below(directory))
        return sorted({name.partition("/")[0] for name in below if "/" in name})

    def is_empty(self, directory: str) -> bool:
        return not self._below(directory)

    def delete(self, names: Sequence[str]) -> None:
        self.requests.append(f"delete {len(names)}")
        _fail(self.before_delete)
        for name in names:
            self.objects.pop(name, None)

    def delete_all(self) -> None:
        self.objects.clear()

    def _below(self, directory: str) -> list[str]:
        return [name for name in self.objects if name.startswith(f"{directory}/")]

    def _find(self, name: str) -> tuple[bytes, str | None]:
        if name not in self.objects:
            raise missing(name)
        return self.objects[name]


def _fail(errors: list[OSError]) -> None:
    if errors:
        raise errors.pop(0)
