"""Is a stop said? SIGTERM with open streams: a result frame on each, and the process gone within a second."""

from benchmarks.lab import Lab
from benchmarks.report import Cell, Row, Target

STREAMS = 100
PATIENCE = 2.0
WITHIN = Target(1.0, "most", " s")
ALL = Target(STREAMS, "least")


def measure(lab: Lab) -> list[Row]:
    sdk_seconds, sdk_results = _stop(lab, "sdk-modern")
    seconds, results = _stop(lab, "tidings")
    return [
        Row(
            "stop",
            "SIGTERM: seconds until the process is gone",
            sdk=_tell(sdk_seconds),
            tidings=_tell(seconds),
            value=PATIENCE if seconds is None else seconds,
            target=WITHIN,
        ),
        Row(
            "stop",
            f"SIGTERM: streams with a result frame, of {STREAMS}",
            sdk=sdk_results,
            tidings=results,
            value=results,
            target=ALL,
        ),
    ]


def _tell(seconds: float | None) -> Cell:
    return f"> {PATIENCE:g}" if seconds is None else seconds


def _stop(lab: Lab, variant: str) -> tuple[float | None, int]:
    lab.say(f"stop: SIGTERM with {STREAMS} streams on {variant}")
    with lab.serve(variant, name=f"stop-{variant}") as subject:
        subject.open("modern", [["bench://shared"]] * STREAMS)
        seconds = subject.server.terminate(PATIENCE)
        results: int = lab.reader.ask("counts", group=subject.name)["results"]
    return seconds, results
