"""Files shared by programs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidings._kit.files import (
    Locked,
    NotAFile,
    locked,
    open_lock,
    read_file,
    replace_file,
    same_state,
    state_of,
    try_lock,
    wait_for_lock,
)

posix = pytest.mark.skipif(os.name == "nt", reason="of POSIX")

HOLD = """
import sys
from pathlib import Path
from tidings._kit.files import locked
with locked(Path(sys.argv[1]), 5):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_file_is_read_up_to_its_limit_and_no_further(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    data, state = read_file(path, 5)
    assert (data, state.st_size) == (b"12345", 5)
    with pytest.raises(OverflowError) as caught:
        read_file(path, 4)
    assert caught.value.args == (5,)


def test_a_folder_and_a_missing_file_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        read_file(tmp_path, 10)
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "none", 10)


@posix
@pytest.mark.timeout(20)
def test_nothing_waits_for_a_pipe_or_reads_a_device(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotAFile):
        read_file(tmp_path / "pipe", 10)
    with pytest.raises(NotAFile):
        read_file(Path("/dev/zero"), 10)


def test_a_file_is_replaced_in_one_step_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "a"
    assert replace_file(path, b"one", None)
    with path.open("rb") as reader:
        assert replace_file(path, b"two", state_of(path))
        assert reader.read() == b"one"
    assert path.read_bytes() == b"two"
    assert [each.name for each in tmp_path.iterdir()] == ["a"]
    if os.name != "nt":
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_changed_since_it_was_read_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    _, seen = read_file(path, 10)
    path.write_bytes(b"other")
    assert not replace_file(path, b"two", seen)
    assert path.read_bytes() == b"other"
    assert replace_file(path, b"two", state_of(path))
    assert path.read_bytes() == b"two"
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_a_file_that_came_to_be_or_went_meanwhile_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a"
    assert replace_file(path, b"one", None)
    assert not replace_file(path, b"two", None)
    seen = state_of(path)
    path.unlink()
    assert not replace_file(path, b"two", seen)
    assert not path.exists()
    assert same_state(None, None)
    assert not same_state(seen, None)


@posix
def test_a_file_that_cannot_be_written_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        replace_file(path, b"two", state_of(path))
    assert path.read_bytes() == b"one"
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_a_lock_is_held_by_one_at_a_time_and_ends_with_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(Locked), locked(path, 0.05):
            pass
        descriptor = open_lock(path)
        assert not try_lock(descriptor)
    finally:
        holder.kill()
        holder.communicate()
    wait_for_lock(descriptor, 5)
    with pytest.raises(Locked), locked(path, 0):
        pass
    os.close(descriptor)
    with locked(path, 0):
        pass


def test_a_lock_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    command = [sys.executable, "-c", HOLD, str(path)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    holder.stdin.close()
    with locked(path, 30):
        pass
    assert holder.wait() == 0
    holder.stdout.close()
