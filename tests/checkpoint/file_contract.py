"""The contract of `CheckpointFiles` as tests, which the test class of an implementation inherits.

    class TestLocalFiles(FileContract):
        writer_program = "..."

        def make_files(self, root: Path) -> CheckpointFiles:
            return LocalFiles(root)

Every implementation is tested on a local directory, so that the tests can create files of other
programs in it and look at the result.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.checkpoint import CheckpointFiles

PATIENCE = 60.0
ROUNDS = 25


class FileContract(ABC):
    """The contract of `CheckpointFiles`."""

    @abstractmethod
    def make_files(self, root: Path) -> CheckpointFiles:
        """The implementation under test, for a local directory that may not exist yet."""

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        return tmp_path / "somewhere" / "checkpoint"

    @pytest.fixture
    def files(self, root: Path) -> CheckpointFiles:
        return self.make_files(root)

    # Creating.

    def test_a_created_file_has_all_its_data(self, files: CheckpointFiles, root: Path) -> None:
        files.make_directory("offsets")
        data = b"v1\n\xc3\xa9\n" + bytes(range(256)) * 1000
        assert files.create_if_absent("offsets/0", data) is True
        assert files.read("offsets/0") == data
        assert (root / "offsets" / "0").read_bytes() == data

    def test_a_file_may_be_empty(self, files: CheckpointFiles) -> None:
        files.make_directory("offsets")
        assert files.create_if_absent("offsets/0", b"")
        assert files.read("offsets/0") == b""

    def test_a_file_that_is_there_is_left_as_it_is(self, files: CheckpointFiles) -> None:
        files.make_directory("offsets")
        assert files.create_if_absent("offsets/0", b"first")
        assert files.create_if_absent("offsets/0", b"second") is False
        assert files.read("offsets/0") == b"first"

    def test_a_file_of_another_writer_is_not_overwritten(
        self, files: CheckpointFiles, root: Path
    ) -> None:
        files.make_directory("offsets")
        _plant(root, "offsets/0", b"")
        assert files.create_if_absent("offsets/0", b"mine") is False
        assert files.read("offsets/0") == b""

    def test_a_missing_directory_is_an_error_and_is_not_made(
        self, files: CheckpointFiles, root: Path
    ) -> None:
        with pytest.raises(FileNotFoundError, match="checkpoint"):
            files.create_if_absent("metadata", b"x")
        assert not root.exists()
        files.make_directory("")
        with pytest.raises(FileNotFoundError, match="offsets"):
            files.create_if_absent("offsets/0", b"x")
        assert list(root.iterdir()) == []

    def test_a_directory_that_has_gone_is_an_error_and_is_not_made_again(
        self, files: CheckpointFiles, root: Path
    ) -> None:
        files.make_directory("offsets")
        assert files.create_if_absent("offsets/0", b"x")
        root.rename(root.with_name("away"))
        with pytest.raises(FileNotFoundError):
            files.create_if_absent("offsets/1", b"y")
        assert not root.exists()
        root.with_name("away").rename(root)
        assert files.create_if_absent("offsets/1", b"y")

    def test_directories_are_made_with_those_above_them(
        self, files: CheckpointFiles, root: Path
    ) -> None:
        files.make_directory("deep/below/the/top")
        files.make_directory("deep/below")
        files.make_directory("")
        assert (root / "deep" / "below" / "the" / "top").is_dir()
        assert files.create_if_absent("deep/below/the/top/file", b"x")
        assert files.create_if_absent("metadata", b"y")

    def test_no_directory_is_made_in_the_place_of_a_file(
        self, files: CheckpointFiles, root: Path
    ) -> None:
        _plant(root, "offsets", b"I am a file")
        with pytest.raises(OSError, match="offsets"):
            files.make_directory("offsets/below")
        assert (root / "offsets").read_bytes() == b"I am a file"

    def test_nothing_but_the_file_is_left(self, files: CheckpointFiles, root: Path) -> None:
        files.make_directory("offsets")
        files.create_if_absent("offsets/0", b"x")
        files.create_if_absent("offsets/0", b"y")
        left = {path.name for path in (root / "offsets").iterdir()}
        assert left - {".0.crc"} == {"0"}

    def test_a_stale_checksum_does_not_spoil_a_new_file(
        self, files: CheckpointFiles, root: Path
    ) -> None:
        files.make_directory("offsets")
        _plant(root, "offsets/.0.crc", b"crc\0 of a file that is gone")
        assert files.create_if_absent("offsets/0", b"new")
        assert files.read("offsets/0") == b"new"
        twin = root / "offsets" / ".0.crc"
        assert not twin.exists() or b"gone" not in twin.read_bytes()

    def test_a_file_in_place_of_a_directory_is_an_error_and_not_a_taken_name(
        self, files: CheckpointFiles, root: Path
    ) -> None:
        _plant(root, "offsets", b"I am a file")
        with pytest.raises(OSError, match="offsets"):
            files.create_if_absent("offsets/0", b"x")
        assert (root / "offsets").read_bytes() == b"I am a file"

    # Racing.

    def test_a_reader_never_sees_a_part_of_the_data(
        self, files: CheckpointFiles, root: Path
    ) -> None:
        files.make_directory("offsets")
        data = b"0123456789abcdef" * 65_536
        done = threading.Event()
        seen: set[bytes] = set()

        def look(name: str) -> None:
            try:
                seen.add(files.read(name))
            except FileNotFoundError:
                return

        def read_all_the_time() -> None:
            while not done.is_set():
                for name in range(5):
                    look(f"offsets/{name}")

        reader = threading.Thread(target=read_all_the_time)
        reader.start()
        writer = self.make_files(root)
        for name in range(5):
            assert writer.create_if_absent(f"offsets/{name}", data)
        done.set()
        reader.join(PATIENCE)
        look("offsets/0")
        assert seen == {data}

    # Reading.

    def test_reading_a_missing_file_raises_file_not_found(self, files: CheckpointFiles) -> None:
        files.make_directory("offsets")
        with pytest.raises(FileNotFoundError):
            files.read("offsets/0")
        files.create_if_absent("offsets/0", b"x")
        with pytest.raises(FileNotFoundError):
            files.read("offsets/1")

    def test_files_and_directories_exist(self, files: CheckpointFiles) -> None:
        assert not files.exists("offsets")
        files.make_directory("offsets")
        assert files.exists("offsets")
        files.create_if_absent("offsets/0", b"x")
        assert files.exists("offsets/0")
        assert not files.exists("offsets/1")

    def test_holds_compares_the_whole_content(self, files: CheckpointFiles, root: Path) -> None:
        files.make_directory("offsets")
        files.create_if_absent("offsets/0", b"mine")
        assert files.holds("offsets/0", b"mine")
        assert not files.holds("offsets/0", b"mina")
        assert not files.holds("offsets/0", b"")
        assert not files.holds("offsets/1", b"mine")
        assert not files.holds("commits/0", b"mine")
        assert not files.holds("offsets", b"mine")

    def test_holds_is_false_below_a_file(self, files: CheckpointFiles, root: Path) -> None:
        _plant(root, "offsets", b"I am a file")
        assert not files.holds("offsets/0", b"mine")

    def test_a_pinned_directory_differs_from_another_of_its_name(
        self, files: CheckpointFiles, root: Path
    ) -> None:
        assert files.pin("state") is None
        files.make_directory("state")
        is_the_same = files.pin("state")
        if is_the_same is None:
            return  # an implementation without support returns None at once
        assert is_the_same()
        (root / "state").rename(root / "away")
        assert not is_the_same()
        files.make_directory("state")
        assert not is_the_same()
        (root / "state").rmdir()
        (root / "state").write_bytes(b"a file")
        assert not is_the_same()
        (root / "state").unlink()
        (root / "away").rename(root / "state")
        assert is_the_same()

    def test_listing_gives_files_of_every_kind_and_no_directories(
        self, files: CheckpointFiles, root: Path
    ) -> None:
        for name in ("0", "10", ".0.crc", ".2.uuid.tmp", "stranger.txt"):
            _plant(root, f"offsets/{name}", b"x")
        _plant(root, "offsets/3/below", b"x")
        listed = files.list_names("offsets")
        assert sorted(listed) == sorted(["0", "10", ".0.crc", ".2.uuid.tmp", "stranger.txt"])

    def test_listing_directories_gives_no_files(self, files: CheckpointFiles, root: Path) -> None:
        for name in ("0/state", "1/0/deep", "file", ".0.crc"):
            _plant(root, f"state/{name}", b"x")
        assert sorted(files.list_directories("state")) == ["0", "1"]

    def test_a_missing_directory_lists_as_empty(self, files: CheckpointFiles) -> None:
        assert files.list_names("offsets") == []
        assert files.list_directories("offsets") == []

    def test_a_directory_is_empty_until_something_is_in_it(
        self, files: CheckpointFiles, root: Path
    ) -> None:
        assert files.is_empty("state")
        (root / "state").mkdir(parents=True)
        assert files.is_empty("state")
        (root / "state" / "0").mkdir()
        assert not files.is_empty("state")

    def test_a_path_is_the_root_and_the_name(self, files: CheckpointFiles) -> None:
        assert files.path("offsets/7") == f"{files.root}/offsets/7"
        assert files.root.endswith("/somewhere/checkpoint")

    # Removing.

    def test_a_deleted_file_is_gone_with_its_checksum(
        self, files: CheckpointFiles, root: Path
    ) -> None:
        files.make_directory("offsets")
        files.create_if_absent("offsets/0", b"x")
        _plant(root, "offsets/.0.crc", b"crc\0")
        files.delete("offsets/0")
        assert list((root / "offsets").iterdir()) == []
        assert files.create_if_absent("offsets/0", b"y")
        assert files.read("offsets/0") == b"y"

    def test_deleting_a_missing_file_is_fine(self, files: CheckpointFiles) -> None:
        files.delete("offsets/0")

    def test_everything_can_be_deleted_twice(self, files: CheckpointFiles, root: Path) -> None:
        files.make_directory("offsets")
        files.create_if_absent("offsets/0", b"x")
        files.create_if_absent("metadata", b"x")
        files.delete_all()
        assert not root.exists()
        assert root.parent.exists()
        files.delete_all()


class ExclusiveFileContract(FileContract):
    """The contract of an implementation on which of several concurrent writers exactly one wins."""

    writer_program: str
    """A Python program with a function `files(root)`, for the race between processes."""

    def test_of_concurrent_threads_exactly_one_creates_the_file(
        self, files: CheckpointFiles, root: Path
    ) -> None:
        files.make_directory("offsets")
        layers = [files, *(self.make_files(root) for _ in range(3))]
        start = threading.Barrier(len(layers))

        def write(number: int, layer: CheckpointFiles) -> list[bool]:
            won = []
            for name in range(ROUNDS):
                start.wait(PATIENCE)
                won.append(layer.create_if_absent(f"offsets/{name}", _data_of(number)))
            return won

        with ThreadPoolExecutor(len(layers)) as pool:
            results = list(pool.map(write, range(len(layers)), layers))
        for name in range(ROUNDS):
            winners = [number for number, won in enumerate(results) if won[name]]
            assert len(winners) == 1
            assert files.read(f"offsets/{name}") == _data_of(winners[0])

    def test_of_concurrent_processes_exactly_one_creates_the_file(
        self, files: CheckpointFiles, root: Path
    ) -> None:
        files.make_directory("offsets")
        program = self.writer_program + _RACE
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", program, str(root), str(number), str(ROUNDS)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for number in range(2)
        ]
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        outputs = [writer.communicate(timeout=PATIENCE)[0].split() for writer in writers]
        for name in range(ROUNDS):
            winners = [number for number, won in enumerate(outputs) if won[name] == "True"]
            assert len(winners) == 1
            assert files.read(f"offsets/{name}") == _data_of(winners[0])


def _plant(root: Path, name: str, data: bytes) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_bytes(data)


def _data_of(number: int) -> bytes:
    return f"writer {number}\n".encode() * 100


_RACE = """
import sys
root, number, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
layer = files(root)
print("ready", flush=True)
sys.stdin.readline()
data = f"writer {number}\\n".encode() * 100
print(*[layer.create_if_absent(f"offsets/{name}", data) for name in range(rounds)])
"""
