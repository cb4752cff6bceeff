"""`LocalFiles`: the contract in both ways of writing, and failures of the disk."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.checkpoint import CheckpointFiles, LocalFiles
from tests.checkpoint.file_contract import ExclusiveFileContract

NAMED = "import os\ndel os.O_TMPFILE\n"
PROGRAM = "from penstock.checkpoint import LocalFiles\nfiles = LocalFiles\n"


class LocalContract(ExclusiveFileContract):
    """Besides the contract: a failed write leaves no file and raises."""

    def make_files(self, root: Path) -> CheckpointFiles:
        return LocalFiles(root)

    def test_a_full_disk_leaves_nothing_behind(
        self, files: CheckpointFiles, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        files.make_directory("offsets")
        monkeypatch.setattr(os, "write", _fail_after_one_byte(os.write))
        with pytest.raises(OSError, match="No space left") as caught:
            files.create_if_absent("offsets/0", b"some data")
        assert caught.value.errno == errno.ENOSPC
        assert list((root / "offsets").iterdir()) == []

    def test_data_that_cannot_be_synced_is_never_linked(
        self, files: CheckpointFiles, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (root / "offsets").mkdir(parents=True)
        monkeypatch.setattr(os, "fsync", _raise(errno.EIO))
        with pytest.raises(OSError, match="Input/output error"):
            files.create_if_absent("offsets/0", b"some data")
        assert list((root / "offsets").iterdir()) == []
        monkeypatch.undo()

    def test_a_directory_that_cannot_be_synced_is_an_error_with_a_whole_file(
        self, files: CheckpointFiles, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (root / "offsets").mkdir(parents=True)
        calls: list[int] = []
        sync = os.fsync

        def fail_at_the_second(descriptor: int) -> None:
            calls.append(descriptor)
            if len(calls) == 2:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            sync(descriptor)

        monkeypatch.setattr(os, "fsync", fail_at_the_second)
        with pytest.raises(OSError, match="Input/output error"):
            files.create_if_absent("offsets/0", b"some data")
        assert files.read("offsets/0") == b"some data"

    def test_data_and_directories_are_synced_in_order(
        self, files: CheckpointFiles, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        root.mkdir(parents=True)
        synced: list[str] = []
        sync = os.fsync

        def note(descriptor: int) -> None:
            target = os.readlink(f"/proc/self/fd/{descriptor}")
            is_directory = Path(target).is_dir()
            synced.append(Path(target).name if is_directory else "the file")
            assert (root / "offsets" / "0").exists() == (synced[-1] == "offsets")
            sync(descriptor)

        monkeypatch.setattr(os, "fsync", note)
        files.make_directory("offsets")
        files.create_if_absent("offsets/0", b"some data")
        assert synced == ["checkpoint", "the file", "offsets"]

    def test_a_system_that_writes_little_at_a_time_writes_it_all(
        self, files: CheckpointFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        files.make_directory("offsets")
        write = os.write
        monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data[:3])))
        assert files.create_if_absent("offsets/0", b"0123456789")
        assert files.read("offsets/0") == b"0123456789"

    def test_a_stale_checksum_is_gone_before_the_file_is_there(
        self, files: CheckpointFiles, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (root / "offsets").mkdir(parents=True)
        (root / "offsets" / ".0.crc").write_bytes(b"stale")
        monkeypatch.setattr(os, "link", _raise(errno.EIO))
        with pytest.raises(OSError, match="Input/output error"):
            files.create_if_absent("offsets/0", b"some data")
        assert list((root / "offsets").iterdir()) == []

    def test_a_file_created_between_the_check_and_the_link_is_not_overwritten(
        self, files: CheckpointFiles, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (root / "offsets").mkdir(parents=True)
        (root / "offsets" / "0").write_bytes(b"theirs")
        monkeypatch.setattr(Path, "exists", lambda self: False)
        assert files.create_if_absent("offsets/0", b"mine") is False
        assert files.read("offsets/0") == b"theirs"
        assert [p.name for p in (root / "offsets").iterdir()] == ["0"]

    def test_a_file_above_the_root_is_named_in_the_error(self, tmp_path: Path) -> None:
        (tmp_path / "taken").write_bytes(b"")
        files = self.make_files(tmp_path / "taken" / "checkpoint")
        with pytest.raises(NotADirectoryError, match="A file has the name of a directory"):
            files.make_directory("offsets")

    def test_checksum_files_behind_a_link_are_removed(self, root: Path, tmp_path: Path) -> None:
        for name in ("4.zip", ".4.zip.crc", "SSTs/.1.sst.crc"):
            path = tmp_path / "large disk" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"crc")
        (root / "state").mkdir(parents=True)
        (root / "state/0").symlink_to(tmp_path / "large disk")
        LocalFiles(root).remove_checksum_twins("state")
        left = [path.name for path in (tmp_path / "large disk").rglob("*") if path.is_file()]
        assert left == ["4.zip"]

    def test_a_process_killed_before_the_sync_leaves_no_entry(self, root: Path) -> None:
        program = (
            f"{self.writer_program}\nimport os, signal, sys\n"
            "os.fsync = lambda fd: os.kill(os.getpid(), signal.SIGKILL)\n"
            "files(sys.argv[1]).create_if_absent('offsets/0', b'x')\n"
        )
        (root / "offsets").mkdir(parents=True)
        killed = subprocess.run([sys.executable, "-c", program, str(root)], check=False)
        assert killed.returncode == -signal.SIGKILL
        left = [path.name for path in (root / "offsets").iterdir()]
        assert all(name.startswith(".0.") and name.endswith(".tmp") for name in left)
        assert self.make_files(root).create_if_absent("offsets/0", b"y")


class TestUnnamedLocalFiles(LocalContract):
    """Writes with unnamed files, if the system supports them."""

    writer_program = PROGRAM

    @pytest.fixture(autouse=True)
    def needs_unnamed_files(self, tmp_path: Path) -> None:
        try:
            os.close(os.open(tmp_path, os.O_TMPFILE | os.O_WRONLY))
        except (AttributeError, OSError) as exc:
            pytest.skip(f"this system has no unnamed files: {exc}")

    def test_nothing_has_a_name_before_the_link(
        self, files: CheckpointFiles, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (root / "offsets").mkdir(parents=True)
        sync = os.fsync
        names: list[list[str]] = []

        def note(descriptor: int) -> None:
            names.append(os.listdir(root / "offsets"))
            sync(descriptor)

        monkeypatch.setattr(os, "fsync", note)
        assert files.create_if_absent("offsets/0", b"some data")
        assert names == [[], ["0"]]


class TestNamedLocalFiles(LocalContract):
    """Writes with hidden temporary files, for systems without unnamed files."""

    writer_program = NAMED + PROGRAM

    @pytest.fixture(autouse=True)
    def no_unnamed_files(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL])
def test_a_file_system_without_unnamed_files_gets_a_named_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(os, "open", _refuse_unnamed(number))
    files = LocalFiles(tmp_path)
    files.make_directory("offsets")
    assert files.create_if_absent("offsets/0", b"x")
    assert files.read("offsets/0") == b"x"


def test_another_refusal_of_an_unnamed_file_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example a read-only file system. The error is injected, since root may write anywhere."""
    LocalFiles(tmp_path).make_directory("offsets")
    monkeypatch.setattr(os, "open", _refuse_unnamed(errno.EROFS))
    with pytest.raises(OSError, match="Read-only file system") as caught:
        LocalFiles(tmp_path).create_if_absent("offsets/0", b"x")
    assert caught.value.errno == errno.EROFS
    assert not (tmp_path / "offsets" / "0").exists()


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS])
@pytest.mark.parametrize("named", [True, False])
def test_a_file_system_without_hard_links_is_named_as_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, named: bool
) -> None:
    files = LocalFiles(tmp_path)
    files.make_directory("offsets")
    if named:
        monkeypatch.setattr(os, "open", _refuse_unnamed(errno.EOPNOTSUPP))
    monkeypatch.setattr(os, "link", _raise(number))
    with pytest.raises(OSError, match=r"no hard links.*checkpointFileManagerClass") as caught:
        files.create_if_absent("offsets/0", b"x")
    assert caught.value.errno == number
    assert caught.value.filename == str(tmp_path / "offsets/0")
    assert os.listdir(tmp_path / "offsets") == []


def test_another_error_of_a_link_is_not_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LocalFiles(tmp_path).make_directory("offsets")
    monkeypatch.setattr(os, "link", _raise(errno.EIO))
    with pytest.raises(OSError, match=r"^\[Errno 5\] Input/output error: '.*/offsets/0'$"):
        LocalFiles(tmp_path).create_if_absent("offsets/0", b"x")


def _refuse_unnamed(number: int) -> Callable[..., int]:
    really_open = os.open

    def refuse(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(number, os.strerror(number))
        return really_open(path, flags, mode)

    return refuse


def _raise(number: int) -> Callable[..., None]:
    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def _fail_after_one_byte(write: Callable[[int, bytes], int]) -> Callable[[int, bytes], int]:
    written: list[int] = []

    def fail(descriptor: int, data: bytes) -> int:
        if written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written.append(1)
        return write(descriptor, bytes(data[:1]))

    return fail
