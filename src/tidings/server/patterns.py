"""One way to name many URIs: a URI, a prefix ending in `*`, or a template such as `feed://{id}`."""

from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate

from tidings.changes import check_subscription


class Pattern:
    """Matches URIs, and subscriptions: a prefix such as `feed://*` matches the template `feed://{id}` with `id="*"`.

    Raises:
        ValueError: The text is neither a URI nor a prefix nor a template.
        TypeError: It is no text.
    """

    def __init__(self, text: object) -> None:
        if not isinstance(text, str):
            raise TypeError(
                f"A pattern is a text (a URI, a prefix ending in '*', or a template such as 'note://{{id}}'), "
                f"not {type(text).__name__}"
            )
        self.text = text
        self._template: UriTemplate | None = None
        if "{" in text:  # No URI has one: what is not a whole template is a slip, not a URI that matches nothing.
            try:
                self._template = UriTemplate.parse(text)
            except InvalidUriTemplate as error:
                raise ValueError(f"{text!r} is not a URI template: {error}") from error
        else:
            check_subscription(text)

    @property
    def variables(self) -> list[str]:
        """The names that `match` gives values for."""
        return [] if self._template is None else self._template.variable_names

    @property
    def optional(self) -> frozenset[str]:
        """Those of the variables that a URI may leave out: the ones of its query."""
        return frozenset() if self._template is None else self._template.query_variable_names

    def match(self, uri: str) -> dict[str, str | list[str]] | None:
        """The template's variables as `uri` has them (none for a URI or a prefix), or None if `uri` does not match."""
        if self._template is not None:
            return self._template.match(uri)
        if uri == self.text or (self.text.endswith("*") and uri.startswith(self.text[:-1])):
            return {}
        return None

    def covers(self, subscription: str) -> bool:
        """Whether all that `subscription` wants is among what this names: of a prefix, only a prefix can know."""
        if subscription.endswith("*") and self._template is not None:
            return False
        return self.match(subscription) is not None

    def __repr__(self) -> str:
        return f"Pattern({self.text!r})"
