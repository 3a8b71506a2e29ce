"""Why the file of a database cannot be opened, in words that name the cause and the cure.

May import: nothing of Tidings.
"""

import os
from contextlib import suppress
from pathlib import Path


def no_access(error: Exception, path: Path) -> str:
    """What stands in the way, as far as the file system tells; `error` is what the database said."""
    with suppress(OSError):
        folder = path.parent
        if not folder.exists():
            return f"there is no folder {folder}. Create it."
        if not folder.is_dir():
            return f"{folder} is not a folder. Choose another path."
        if path.is_dir():
            return "it is a folder. Name a file in it."
        if path.exists() and not os.access(path, os.R_OK | os.W_OK):
            return "this user may not read and write it. Change its permissions, or choose another path."
        if not os.access(folder, os.W_OK | os.X_OK):
            return f"this user may not write in {folder}, where SQLite keeps two more files. Change its permissions."
    return f"{error}. Look at its permissions, and at those of the folders above it."
