"""What two texts have in common at their ends: whole lines. Everything is compared in slices, which is fast.

May import: nothing of Tidings.
"""


def common_start(before: str, after: str) -> int:
    """How many characters both begin with."""
    most = min(len(before), len(after))
    start, step = 0, most
    while step:
        if start + step <= most and before[start : start + step] == after[start : start + step]:
            start += step
        else:
            step //= 2
    return start


def common_end(before: str, after: str, most: int) -> int:
    """How many characters both end with, up to `most`."""
    end, step = 0, most
    while step:
        known, wanted = end, end + step
        old = before[len(before) - wanted : len(before) - known]
        if wanted <= most and old == after[len(after) - wanted : len(after) - known]:
            end = wanted
        else:
            step //= 2
    return end


def common_lines(before: str, after: str) -> tuple[int, int]:
    """How many characters both begin and end with, in whole lines."""
    start = before.rfind("\n", 0, common_start(before, after)) + 1
    end = common_end(before, after, min(len(before), len(after)) - start)
    for text in (before, after):
        begin = len(text) - end
        if begin > start and text[begin - 1] != "\n":
            found = text.find("\n", begin)
            end = len(text) - found - 1 if found >= 0 else 0
    return start, end
