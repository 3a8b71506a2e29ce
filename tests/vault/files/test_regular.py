"""Reading files that may turn out to be none."""

import os
from pathlib import Path

import pytest

from tidings.vault.files import content
from tidings.vault.files.content import read_regular


def test_a_file_is_read_up_to_what_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"four")
    assert read_regular(tmp_path / "a", 4) == b"four"
    with pytest.raises(OverflowError):
        read_regular(tmp_path / "a", 3)


def test_a_file_that_grows_while_it_is_read_is_not_read_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(b"x")
    fdopen = os.fdopen

    def grown(*arguments: object, **options: object) -> object:
        (tmp_path / "a").write_bytes(b"x" * 1000)
        return fdopen(*arguments, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(content.os, "fdopen", grown)
    with pytest.raises(OverflowError, match="11"):
        read_regular(tmp_path / "a", 10)


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PermissionError):
        read_regular(tmp_path / "pipe", 10)
    with pytest.raises(IsADirectoryError):
        read_regular(tmp_path, 10)
