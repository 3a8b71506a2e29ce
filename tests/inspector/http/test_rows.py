"""The page's types of rows are those of `view.items`."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(not (ROOT / "ui").is_dir(), reason="needs the source of the page")
def test_the_types_of_the_page_are_those_of_the_rows() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/row-types", "--check"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
