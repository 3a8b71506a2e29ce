"""An index that is built at once, without a server."""

from collections.abc import Callable

from tidings.vault.files.paths import Vault
from tidings.vault.index.index import Index
from tidings.vault.index.scan import plan, read_all


def build(
    vault: Vault,
    index: Index,
    *,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
    stopped: Callable[[], bool] = lambda: False,
) -> list[str]:
    """Makes the index equal to the disk. Returns the files that could not be read for now."""
    todo = plan(vault, index)
    index.apply([], todo.gone)
    unsettled: list[str] = []
    done = 0
    for batch in read_all(vault, todo.changed, stopped=stopped):
        index.apply(batch.entries, batch.gone)
        unsettled += batch.unsettled
        done += sum(map(len, batch))
        on_progress(done, len(todo.changed))
    return unsettled
