"""Rules for what does not count as a change of a resource that is polled: a time stamp, a counter.

A rule is a JSONPath that begins with `$`, or else a regular expression. What it names or matches is left out before two
contents are compared. A rule that takes too long on a content is skipped: then a change too many is told.
"""

import json
import logging
from collections.abc import Sequence
from typing import Any, Final

from tidings._kit.bounded_json import as_dict, as_list
from tidings._kit.json_path import BadJsonPath, JsonPath
from tidings._kit.patterns import BadPattern, users_pattern

logger = logging.getLogger(__name__)

_SECONDS: Final = 0.5  # For one pattern on one text.
_MOST: Final = 10_000  # Places that one path names.


class Ignored:
    """Some rules. Raises `ValueError` if one of them cannot be used."""

    def __init__(self, rules: Sequence[str]) -> None:
        try:
            self._paths = [JsonPath(rule) for rule in rules if rule.startswith("$")]
            self._patterns = [users_pattern(rule) for rule in rules if not rule.startswith("$")]
        except (BadJsonPath, BadPattern) as error:
            raise ValueError(f"The ignore rule cannot be used: {error}.") from None

    def compared(self, contents: Any) -> Any:
        """Returns the contents of a resource without what is ignored. It may take a while: call it in a thread."""
        return [self._cleaned(as_dict(each)) for each in as_list(contents)]

    def _cleaned(self, content: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(text := content.get("text"), str):
            return content
        if self._paths:
            text = self._without_parts(text)
        for pattern in self._patterns:
            try:
                text = pattern.sub("", text, timeout=_SECONDS, concurrent=True)
            except TimeoutError:
                logger.warning("An ignore rule takes too long on %s: %r", content.get("uri"), pattern.pattern)
        return {**content, "text": text}

    def _without_parts(self, text: str) -> str:
        try:
            value = json.loads(text)
            for path in self._paths:
                path.remove(value, _MOST)
            return json.dumps(value, sort_keys=True)
        except (ValueError, RecursionError):  # It is not JSON, or nested too deeply.
            return text
