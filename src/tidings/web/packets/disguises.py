"""Letters and words in disguise, made plain for looking at them: what a reader sees, as a pattern can match it.

plain(text)      without what nobody sees, without emphasis inside of words, letters of other widths made plain
undressed(small) the same length, each letter with something on or around it as the letter; None if there is none
"""

import re
import unicodedata
from collections.abc import Iterable

from tidings.web.packets.invisible import stripped

_ESCAPED = re.compile(r"\\([\\`*_\[\]])")
_WITHIN_WORDS = re.compile(r"(?<=[^\W_])(?:\*{1,3}|~~|</?(?:[abius]|em|span|strong|wbr)>)(?=[^\W_])")
_MARKS = re.compile("[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]+")
_WIDE = re.compile("[\uff01-\uff5e\U0001d400-\U0001d7ff\u2018\u2019\u02bc]")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_PLAIN: dict[int, int | str] = {
    **{code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)},
    **dict.fromkeys(map(ord, "\u2018\u2019\u02bc"), "'"),
    **{0x1D400 + number: (_LETTERS.upper() + _LETTERS)[number % 52] for number in range(13 * 52)},
}
_LOOKALIKES = str.maketrans(
    "аеорсухіјѕԁһтвкмнοαενιρτυχκ",  # Cyrillic and Greek
    "aeopcyxijsdhtbkmhoaeviptuxk",
)
_MIXED = re.compile(f"[a-z][{''.join(map(chr, _LOOKALIKES))}]|[{''.join(map(chr, _LOOKALIKES))}][a-z]")


def _dresses() -> Iterable[tuple[int, str]]:
    """Letters with accents, in circles, raised: each with the letter in it."""
    for first, last in (
        (0xC0, 0x24F),
        (0x2B0, 0x2E4),
        (0x1D2C, 0x1DBF),
        (0x1E00, 0x1EFF),
        (0x2071, 0x214F),
        (0x249C, 0x24E9),
    ):
        for code in range(first, last + 1):
            inner = [one for one in unicodedata.normalize("NFKD", chr(code)).lower() if one.isalpha()]
            if len(inner) == 1 and inner[0].isascii():
                yield code, inner[0]
    for first in (0x1F110, 0x1F130, 0x1F150, 0x1F170, 0x1F1E6):
        yield from ((first + number, letter) for number, letter in enumerate(_LETTERS))
    yield from zip(map(ord, "ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ"), "abcdefghijklmnoprstuvwyz", strict=True)


_DRESSES = dict(_dresses())
_DRESSED = re.compile(f"[{''.join(map(chr, _DRESSES))}]")


def plain(text: str) -> str:
    """`text` as it is looked at."""
    text = _WITHIN_WORDS.sub("", _ESCAPED.sub(r"\1", stripped(text)))
    if text.isascii():
        return text
    if _MARKS.search(text):
        # Those that make a letter of a language stay with it; those that are left are only there to be in the way.
        text = _MARKS.sub("", unicodedata.normalize("NFC", text))
    return text.translate(_PLAIN) if _WIDE.search(text) else text


def undressed(small: str) -> str | None:
    """`small`, a text in small letters, with plain letters for those that only look like them."""
    if small.isascii():
        return None
    mixed, dressed = _MIXED.search(small), _DRESSED.search(small)
    if mixed:
        small = small.translate(_LOOKALIKES)
    return small.translate(_DRESSES) if dressed else small if mixed else None
