"""`Accounts`: who is signed in to which server, kept for the next program. Imports nothing of the SDK.

A file (mode 0600) lists the accounts. Their tokens are in the keychain of the operating system if `keyring` is
installed and finds one, otherwise in the file too. The account that signed in to a server last is the one that is used.
"""

import json
import os
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidings._kit.bounded_json import as_dict, dumps
from tidings._kit.files import editing_json, read_json, settings_folder

_LARGEST: Final = 4 * 2**20
_LOCK_SECONDS: Final = 10.0
_SERVICE: Final = "tidings"
_SECRETS: Final = "secrets"


@dataclass(frozen=True)
class Account:
    """A sign-in to one server that is kept."""

    url: str
    name: str
    signed_in: float = 0.0
    expires: float | None = None  # The time at which the access token expires, if the server said one.
    scope: str = ""
    issuer: str = ""
    wanted: str = ""  # The scopes that the server asked for since.
    renewable: bool = False  # There is a refresh token.
    in_keychain: bool = False
    current: bool = False


_FACTS: Final = {"signed_in", "expires", "scope", "issuer", "wanted", "renewable"}


def default_accounts() -> "Accounts":
    """Returns the accounts of this user."""
    return Accounts(settings_folder(os.environ, sys.platform, Path.home()) / "tidings" / "accounts.json")


class Accounts:
    """A file of accounts, by the address of the server and by name. Several programs can use it at once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def all(self) -> list[Account]:
        """Returns all accounts, those of one server together."""
        return [account for url in read_json(self.path, _LARGEST) for account in self.of(url)]

    def of(self, url: str) -> list[Account]:
        """Returns the accounts of a server; the current one first."""
        server = as_dict(read_json(self.path, _LARGEST).get(key_of(url)))
        found: list[Account] = []
        for name, facts in as_dict(server.get("accounts")).items():
            known = {key: value for key, value in facts.items() if key in _FACTS}
            current, in_keychain = name == server.get("current"), _SECRETS not in facts
            found.append(Account(key_of(url), name, **known, in_keychain=in_keychain, current=current))
        return sorted(found, key=lambda each: not each.current)

    def get(self, url: str, name: str = "") -> Account | None:
        """Returns an account of a server by its name, or else the current one."""
        return next((each for each in self.of(url) if (each.name == name if name else each.current)), None)

    def secrets(self, account: Account) -> dict[str, Any]:
        """Returns the tokens of an account, and what belongs to them. Empty if they are gone."""
        if account.in_keychain:
            kept = None
            with suppress(Exception):  # A keychain that is locked, or gone: who needs the tokens signs in again.
                kept = _keychain().get_password(_SERVICE, f"{account.name} at {account.url}")
            return as_dict(json.loads(kept)) if kept else {}
        server = as_dict(read_json(self.path, _LARGEST).get(account.url))
        return as_dict(as_dict(as_dict(server.get("accounts")).get(account.name)).get(_SECRETS))

    def keep(self, url: str, name: str, facts: Mapping[str, Any], secrets: Mapping[str, Any], *, use: bool) -> None:
        """Stores an account. `use`: it becomes the current one of its server. Raises `OSError` if it cannot."""
        stored: dict[str, Any] = dict(facts)
        try:
            _keychain().set_password(_SERVICE, f"{name} at {key_of(url)}", dumps(secrets))
        except Exception:  # noqa: BLE001 - each keychain has errors of its own; some are too small for long tokens
            stored[_SECRETS] = dict(secrets)
        with self._editing(url) as server:
            accounts = server.setdefault("accounts", {})
            stored.setdefault("signed_in", as_dict(accounts.get(name)).get("signed_in", time.time()))
            accounts[name] = stored
            if use or "current" not in server:
                server["current"] = name

    def note(self, account: Account, **facts: Any) -> None:
        """Changes what is known of an account besides its secrets."""
        with self._editing(account.url) as server:
            as_dict(as_dict(server.get("accounts")).get(account.name)).update(facts)

    def use(self, url: str, name: str) -> None:
        """Makes an account the current one of its server."""
        with self._editing(url) as server:
            server["current"] = name

    def forget(self, account: Account) -> None:
        """Removes an account with its tokens. Another one of the server becomes the current one."""
        with suppress(Exception):  # It may be in the file alone.
            _keychain().delete_password(_SERVICE, f"{account.name} at {account.url}")
        with self._editing(account.url) as server:
            accounts = server.get("accounts", {})
            accounts.pop(account.name, None)
            if accounts and server.get("current") == account.name:
                server["current"] = next(iter(accounts))

    @contextmanager
    def _editing(self, url: str) -> Generator[dict[str, Any]]:
        with editing_json(self.path, _LARGEST, _LOCK_SECONDS) as document:
            server = document.setdefault(key_of(url), {})
            yield server
            if not server.get("accounts"):
                del document[key_of(url)]


def key_of(url: str) -> str:
    """Returns the form of an address under which its accounts are kept."""
    return url.partition("#")[0].rstrip("/")


def _keychain() -> Any:
    """Returns the keychain of the operating system. Raises if there is none, or keyring is not installed."""
    import keyring  # noqa: PLC0415 - optional, and slow
    from keyring.backends import fail, null  # noqa: PLC0415 - as above

    found = keyring.get_keyring()
    if isinstance(found, fail.Keyring | null.Keyring) or found.priority < 1:
        raise RuntimeError("there is no keychain")
    return found
