"""What has to be said of an answer that may lack something."""

from tidings.vault.view import Status


def standing(status: Status) -> str:
    """A sentence for whoever reads the answer; empty if nothing is amiss."""
    if status.phase == "away":
        return "The vault cannot be reached at present: this is what was in it when it was last seen."
    if status.partial:
        progress = status.progress
        done = f" ({progress.done:,} of {progress.total:,} files)" if progress and progress.total else ""
        return f"The index is still being built{done}: something may be missing."
    return ""
