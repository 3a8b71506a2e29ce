"""Invisible characters that a model reads: what they hide, and a text without them.

Tag characters and variation selectors can spell whole sentences; zero-width characters separate words or carry bits; an
override changes the order of what is shown. Languages and emoji need some of them, and keep them: joiners in Persian,
in the scripts of India and between emoji, zero-width spaces in Thai or Khmer, direction marks beside Hebrew and Arabic,
the tags within the flag of a region.
"""

import re
import unicodedata
from collections.abc import Iterator

from tidings.web.documents.model import Unsafe

_TAGS = "\U000e0000-\U000e007f"
_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_ZERO_WIDTH = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0"
    "\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0080-\U000e00ff\U000e01f0-\U000e0fff"
)
_DIRECTIONS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_CONTROLS = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"

_UNSEEN = re.compile(f"[{_TAGS}{_SELECTORS}{_ZERO_WIDTH}{_DIRECTIONS}{_CONTROLS}]++")
_TAG_RUN = re.compile(f"[{_TAGS}]++")
_SELECTOR_RUN = re.compile(f"[{_SELECTORS}]{{4,}}+")
_ZERO_WIDTH_RUN = re.compile(f"[{_ZERO_WIDTH}]{{16,}}+")
_OVERRIDDEN = re.compile("([\u202d\u202e])([^\u202c\n]{1,200})")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u06ff\u0700-\u08ff\ufb1d-\ufdfc\ufe70-\ufefc]")
_FLAG = re.compile("[\U000e0061-\U000e007a]{2}[\U000e0061-\U000e007a\U000e0030-\U000e0039]{1,4}\U000e007f")
_BLACK_FLAG = "\U0001f3f4"

_JOINED_SCRIPTS = re.compile("[\u0600-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u18af\ufb50-\ufdfc\ufe70-\ufefc]")
_JAMO = re.compile("[\u1100-\u115e\u1161-\u11ff\ua960-\ua97c\ud7b0-\ud7fb]")
_UNSPACED_SCRIPTS = re.compile("[\u0e00-\u109f\u1780-\u17ff]")
_HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_MARKS = frozenset("\u061c\u200e\u200f")
_OPENING, _ISOLATES = frozenset("\u202a\u202b"), frozenset("\u2066\u2067\u2068")
_LOOKED_AT = 8  # Only so many characters of a run can be needed.
_SPELT = 4  # The shortest hidden text; less may be the rest of a broken emoji.
_SHOWN = 500


def disarm(text: str) -> str:
    """Returns `text` without invisible characters, except those that its language or its emoji need."""
    if _UNSEEN.search(text) is None:
        return text
    directions = _RIGHT_TO_LEFT.search(text) is not None and _balanced(text)
    return _UNSEEN.sub(lambda run: _needed(text, run, directions), text)


def stripped(text: str) -> str:
    """Returns `text` without any invisible characters, for matching."""
    return _UNSEEN.sub("", text)


def hidden_in(text: str) -> Iterator[Unsafe]:
    """Yields the messages that invisible characters hide in `text`."""
    if text.isascii():
        return
    tags = "".join(run[0] for run in _TAG_RUN.finditer(text) if not _is_flag(text, run.start(), run[0]))
    spelt = "".join(chr(ord(one) - 0xE0000) for one in tags if "\U000e0020" <= one <= "\U000e007e")
    if len(spelt) >= _SPELT:
        yield Unsafe(text=spelt[:_SHOWN], reason="spelt in invisible tag characters")
    selectors = "".join(_SELECTOR_RUN.findall(text))
    if selected := bytes(ord(one) - (0xFE00 if one < "\U000e0100" else 0xE0100 - 16) for one in selectors):
        message = selected[:_SHOWN].decode("utf-8", "replace")
        yield Unsafe(text=stripped(message), reason="spelt in invisible variation selectors")
    for run in _ZERO_WIDTH_RUN.findall(text):
        # Mails only repeat a few characters, to fill their preview.
        if not any(run[period:] == run[:-period] for period in range(1, 7)):
            yield Unsafe(text=f"({len(run)} characters)", reason="a message in characters of no width")
            break
    for found in _OVERRIDDEN.finditer(text):
        turned = re.findall("[A-Za-z]", found[2]) if found[1] == "\u202e" else _RIGHT_TO_LEFT.findall(found[2])
        if len(turned) >= 3:
            yield Unsafe(text=stripped(found[2]).strip(), reason="shown in another order than it is written")
            break


def _is_flag(text: str, start: int, run: str) -> bool:
    return text[start - 1 : start] == _BLACK_FLAG and _FLAG.fullmatch(run) is not None


def _balanced(text: str) -> bool:
    """Returns whether each embedding and isolate of `text` ends within its line."""
    for line in text.split("\n"):
        embedded = isolated = 0
        for one in re.findall("[\u202a-\u202c\u2066-\u2069]", line):
            embedded += (one in _OPENING) - (one == "\u202c")
            isolated += (one in _ISOLATES) - (one == "\u2069")
            if embedded < 0 or isolated < 0:
                return False
        if embedded or isolated:
            return False
    return True


def _needed(text: str, run: re.Match[str], directions: bool) -> str:
    before, after = text[run.start() - 1 : run.start()], text[run.end() : run.end() + 1]
    if _is_flag(text, run.start(), run[0]):
        return run[0]
    kept = ""
    for one in run[0][:_LOOKED_AT]:
        directs = one in _MARKS or "\u202a" <= one <= "\u202c" or "\u2066" <= one <= "\u2069"
        # A variation selector needs something to select: an emoji or sign, a keycap, an ideograph.
        selects = "\U000e0100" <= one <= "\U000e01ef" and _HAN.match(before) is not None
        if "\ufe00" <= one <= "\ufe0f":
            selects = after == "\u20e3" if before.isascii() else not before.isspace()
        selects = selects and not kept
        if one not in kept and (selects or _joins(one, before, after) or (directions and directs)):
            kept += one
    return kept


def _joins(one: str, before: str, after: str) -> bool:
    if one in "\u200c\u200d" and _JOINED_SCRIPTS.match(before):
        return True
    if one == "\u200d":
        return _is_emoji(before) and _is_emoji(after)
    if one == "\u200b":
        return _UNSPACED_SCRIPTS.match(before) is not None
    if one == "\u034f":
        return after != "" and unicodedata.combining(after) > 0
    if one in "\u115f\u1160":
        return _JAMO.match(before) is not None or _JAMO.match(after) is not None
    return "\u180b" <= one <= "\u180f" and "\u1800" <= before <= "\u18af"


def _is_emoji(character: str) -> bool:
    return character > "\u2100" and unicodedata.category(character) in {"So", "Sk", "Sm"}
