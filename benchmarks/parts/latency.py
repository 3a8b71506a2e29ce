"""How long does a change take from a publish to a listener in another process?"""

from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import engines
from benchmarks.ground import Ground
from benchmarks.report import Row, Target

QUICK_ENOUGH = Target(5, "most", " ms")
PAUSE = 0.01
OFTEN = "?poll=0.005"


def measure(ground: Ground) -> list[Row]:
    match ground.engine.name:
        case "memory":
            return _rows(ground, "", "within one process", None)
        case "sqlite":
            # Whoever listens looks into the file every so often: how often decides, and is a setting.
            usual = _rows(ground, "", "poll=0.05, the default", None)
            return usual + _rows(ground, OFTEN, "poll=0.005", QUICK_ENOUGH)
        case "redis":
            with engines.running("redis", always=True) as always, TemporaryDirectory() as folder:
                # A sync is the disk's own time, and there is one on the way of each change.
                note = f"appendfsync always; a sync alone takes {engines.sync_ms(Path(folder)):.1f} ms here"
                synced = _rows(Ground(always, ground.size), "", note, None)
            return _rows(ground, "", "appendfsync everysec", QUICK_ENOUGH) + synced
        case _:
            return _rows(ground, "", "", QUICK_ENOUGH)


def _rows(ground: Ground, options: str, note: str, target: Target | None) -> list[Row]:
    took = sorted(_way(ground, options))
    half, most = _at(took, 0.5), _at(took, 0.99)
    what = f"ms from publish to heard, {ground.engine.name}"
    judged = half if target else None
    return [
        Row("latency", f"{what}, p50", tidings=half, value=judged, target=target, note=note),
        Row("latency", f"{what}, p99", tidings=most, note=note),
    ]


def _way(ground: Ground, options: str) -> list[float]:
    """Milliseconds from before each publish until it was heard in another process."""
    uris = [f"bench://{options}/{number}" for number in range(ground.size.samples)]
    with ground.handle(options) as here, ground.handle(options) as there:
        began = here.ask("paced", uris=uris, pause=PAUSE)["began"]
        listener = there if ground.engine.shared else here
        heard = listener.ask("heard", uris=uris)["heard"]
    return [(heard[uri] - began[uri]) * 1000 for uri in uris]


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
