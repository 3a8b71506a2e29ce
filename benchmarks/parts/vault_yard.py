"""Where vaults are measured: the vaults, the servers, and what each keeps between two starts."""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self, TypeVar

import psutil

from benchmarks.installing import NotInstalled
from benchmarks.parts.vault_notes import Vault, generate
from benchmarks.parts.vault_servers import PEERS, Server, Tidings
from benchmarks.parts.vault_session import Session
from benchmarks.process import ProcessFailed
from benchmarks.report import TIMES, Cell, leave_out, say
from benchmarks.table import figure

T = TypeVar("T")

BARE = "bare"
"""The column of what cannot be undercut."""


@dataclass(frozen=True)
class VaultSize:
    """How much is measured."""

    notes: int = 10_000
    many: int = 50_000
    """Notes of the large vault. The peers are not asked to index it."""
    starts: int = 5
    builds: int = 3
    calls: int = 200
    peer_calls: int = 3
    edits: int = 100
    watched: int = 50
    """Notes that somebody is subscribed to."""
    burst: int = 5_000
    bursts: int = 3
    idle: float = 5
    """Seconds."""
    patience: float = 300
    """Seconds until an index has to be there."""


QUICK = VaultSize(
    notes=1_000, many=3_000, starts=3, builds=1, calls=30, peer_calls=1, edits=20, burst=500, bursts=1, idle=2
)


class Yard:
    """Makes vaults when they are first needed; all of it is gone at the end."""

    def __init__(self, size: VaultSize, *, alone: bool = False) -> None:
        self.size = size
        self.tidings = Tidings()
        self._alone = alone
        self._folder = tempfile.TemporaryDirectory(prefix="tidings-bench-", ignore_cleanup_errors=True)
        self._vaults: dict[tuple[int, str], Vault] = {}
        self._caches: dict[tuple[str, Path], Path] = {}
        self._numbers = iter(range(1 << 30))
        self._used = _used()
        self._started = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    @cached_property
    def peers(self) -> list[Server]:
        """Those that are installed, or can be."""
        found: list[Server] = []
        for peer in () if self._alone else PEERS:
            try:
                found.append(peer())
            except NotInstalled as why:
                leave_out(peer.__name__, why)
        return found

    def beside(self, ask: Callable[[Server], T]) -> dict[str, T]:
        """What is found by asking each peer. One that fails is named, and not asked again."""
        found: dict[str, T] = {}
        for peer in list(self.peers):
            try:
                found[peer.name] = ask(peer)
            except (ProcessFailed, LookupError, TypeError, ValueError) as error:  # Or answers in another shape.
                leave_out(f"{peer.name} from here on", error)
                self.peers.remove(peer)
        return found

    def vault(self, notes: int, name: str = "Notes") -> Vault:
        """A vault of so many notes; the same one for the same name."""
        if (notes, name) not in self._vaults:
            say(f"writing {notes:,} notes")
            self._vaults[notes, name] = generate(Path(self._folder.name, f"{name}-{notes}"), notes)
        return self._vaults[notes, name]

    def fresh(self) -> Path:
        """A place where nothing is."""
        return Path(self._folder.name, f"cache-{next(self._numbers)}")

    def keep(self, server: Server, vault: Vault, cache: Path) -> None:
        """Remember where a server has its index of a vault."""
        self._caches[server.name, vault.root] = cache

    @contextmanager
    def indexed(self, server: Server, vault: Vault) -> Generator[Session]:
        """A server whose index is complete. It is built only if no earlier part left one."""
        known = self._caches.get((server.name, vault.root))
        cache = known or self.fresh()
        with server.start(vault, cache) as session:
            session.open()
            server.wait(session, vault, self.size.patience)
            self.keep(server, vault, cache)
            yield session

    @property
    def disturbance(self) -> float:
        """How many cores others have used on average since this began."""
        used, own = _used()
        return max(0.0, (used - own) - (self._used[0] - self._used[1])) / (time.monotonic() - self._started)


def _used() -> tuple[float, float]:
    """Seconds of CPU that were used on this machine, and by this process and those that it started."""
    system, own = psutil.cpu_times(), os.times()
    busy = sum(system) - system.idle - getattr(system, "iowait", 0.0) - getattr(system, "guest", 0.0)
    return busy, own.user + own.system + own.children_user + own.children_system


def ratios(ours: float, others: Mapping[str, Cell]) -> str:
    """How many times as much each of the others needs."""
    return ", ".join(
        f"{name} {figure(value / ours)}{TIMES}" for name, value in others.items() if isinstance(value, float) and ours
    )


def median(values: list[float]) -> float:
    return float(statistics.median(values))


def high(values: list[float]) -> float:
    """The 95th percentile."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
