"""That there is no such resource, or no longer."""


class NotFound(LookupError):
    """There is no such resource, or no longer. Says what to do."""
