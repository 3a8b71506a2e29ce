"""The benchmark of installing weighs what pip really brought."""

import zipfile
from pathlib import Path

import pytest

from benchmarks import install
from benchmarks.install import Weight
from benchmarks.installing import NotInstalled
from benchmarks.report import TIMES

MEGABYTE = b"x" * 10**6


def small_wheel(folder: Path) -> Path:
    wheel = folder / "small-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("small.bin", MEGABYTE)
        archive.writestr("small-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: small\nVersion: 1\n")
        archive.writestr("small-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("small-1.dist-info/RECORD", "")
    return wheel


@pytest.mark.thorough
def test_what_pip_brought_is_weighed_and_nothing_else(tmp_path: Path) -> None:
    found = install.weigh(str(small_wheel(tmp_path)), tmp_path / "scratch")
    assert found.packages == 1
    assert found.downloaded == pytest.approx(1, abs=0.1)
    assert found.disk == pytest.approx(1, abs=0.1)


def test_what_cannot_be_installed_is_named_and_keeps_nothing_else_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def weigh(what: str, _: Path) -> Weight:
        if what.endswith("[web]"):
            raise NotInstalled("python could not install it (1)")
        return Weight(3, 10.0, 20.0, 1.0) if what == "mcp" else Weight(4, 11.0, 22.0, 2.0)

    monkeypatch.setattr(install, "weigh", weigh)
    monkeypatch.setattr(install, "_wheel", lambda _: small_wheel(tmp_path))
    assert install.main(["--only", "base", "--only", "web", "--only", "all"]) == 2
    said = capsys.readouterr()
    assert "not measured: web: python could not install it (1)" in said.err
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in said.out.splitlines()]
    assert ["MB downloaded, base", "10", "11", f"1.100{TIMES}", f"≤ 1.25{TIMES}", "met", "Tidings / SDK"] in rows
    assert ["MB downloaded, all", "\N{EN DASH}", "11", "11 MB", "≤ 40 MB", "met", ""] in rows
