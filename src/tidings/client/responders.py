"""Answers without a person: from a script, or a fixed list of roots.

A script is a list of rules in YAML or JSON, tried in order: the first that fits answers. What none fits is left to the
person. A rule names what it answers, with a pattern for the words (`*` any words, `?` any letter, `[abc]` one of these;
upper and lower case are one), and then the answer:

```yaml
- elicitation: "*your name*"          # the message of a question to the user
  accept: {name: Ada, age: 36}        # fields that are left out get the form's defaults
- elicitation: "Delete *"
  server: "vault*"                    # only for servers of such a name
  times: 1                            # only the first time; later rules answer what comes then
  accept:
- elicitation: "Delete *"
  decline:                            # or `cancel:`, which is to close the form without a choice
- elicitation: "Sign in*"
  url: "https://example.com/*"        # a rule accepts a URL only if it says which
  accept:
- sampling: "*capital of France*"     # the text of the last message to the model
  reply: Paris
- sampling: "*"
  reject: This machine has no model.  # an error, with the reason
- elicitation: "*urgent*"
  ask:                                # leave it to the person
- roots: [~/notes, file:///srv/docs]  # paths and file:// URIs; relative to where the program runs
```

In JSON, `null` or `true` stands for the empty value of `accept`, `decline`, `cancel`, `reject` and `ask`. `roots` with
no list takes `reject` or `ask`. A script that has something wrong with it is refused when it is loaded.
"""

import os
from collections.abc import Iterable
from typing import Any

from mcp_types import Root

from tidings.client.answers import rooted
from tidings.client.questions import ASK, PendingRequest, Responder
from tidings.client.script import Rule, load


def roots_responder(roots: Iterable[str | os.PathLike[str] | Root]) -> Responder:
    """A responder that answers every request for roots with these, and leaves the rest to the person.

    Raises:
        ValueError: One of them can be no root.
    """
    answer = rooted(roots if isinstance(roots, str) else list(roots))
    return lambda request: answer if request.kind == "roots" else ASK


def script_responder(path: str | os.PathLike[str]) -> Responder:
    """A responder that follows the script at `path`: see the description of this module.

    Raises:
        ValueError: There is no such script, or something is wrong with it. The message says where, and what to do.
    """
    return _Script(load(path))


class _Script:
    """The rules, and how often each was used."""

    def __init__(self, rules: list[Rule]) -> None:
        self._rules = rules
        self._used = [0] * len(rules)

    def __call__(self, request: PendingRequest) -> Any:
        for number, rule in enumerate(self._rules):
            if rule.fits(request) and (rule.times is None or self._used[number] < rule.times):
                self._used[number] += 1
                return rule.answer
        return ASK
