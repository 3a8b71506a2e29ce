"""A resource that is a difference is shown as what it says."""

from tidings.inspector.view.diffs import change_shown
from tidings.inspector.view.items import ContentVersion

PATCH = """\
Today
http://127.0.0.1/today: lines added: 2, removed: 1
--- webfetch://packet/a (2026-11-15)
+++ webfetch://packet/b (2026-11-15)
@@ -3,3 +3,3 @@ Today
 # Today

-Buns are warm.
+Buns are cold.
@@ -40,1 +40,2 @@
 The end.
+Or not.
"""


def version(text: str, kind: str = "text/x-diff") -> ContentVersion:
    contents = [{"uri": "a://1", "mimeType": kind, "text": text}]
    return ContentVersion(1, 0.0, "a://1", str(hash(text)), contents, len(text))


def test_it_has_the_lines_and_numbers_of_what_changed_with_the_words_marked() -> None:
    diff = change_shown(version("Nothing changed."), version(PATCH))
    assert [[(line.sign, line.old, line.new, line.text) for line in hunk.lines] for hunk in diff.hunks] == [
        [
            (" ", 3, 3, "# Today"),
            (" ", 4, 4, ""),
            ("-", 5, None, "Buns are warm."),
            ("+", None, 5, "Buns are cold."),
        ],
        [(" ", 40, 40, "The end."), ("+", None, 41, "Or not.")],
    ]
    assert [piece.text for piece in diff.hunks[0].lines[2].pieces if piece.changed] == ["warm"]
    assert diff.words == "2 lines added, 1 removed"
    assert diff.note == "As the server tells it."


def test_what_is_no_patch_or_does_not_say_that_it_is_one_is_compared() -> None:
    for old, new in [
        (version("Nothing changed."), version("Something did.")),
        (version("x", "text/plain"), version(PATCH, "text/plain")),
        (version("x"), ContentVersion(1, 0.0, "a://1", "h", {"cut": True, "size": 9, "head": PATCH}, 9)),
    ]:
        assert change_shown(old, new).hunks[0].lines[0].text in ("Nothing changed.", "x")


def test_a_patch_that_lies_about_its_lines_is_shown_as_far_as_it_can_be() -> None:
    lying = "@@ -1,999 +1,999 @@\n+a\n\\ No newline at end of file\n@@ nonsense @@\n"
    assert change_shown(None, version(lying)).words == "1 line added"
    assert change_shown(None, version("@@ -1 +1 @@\n same\n")).note == "This is the first version that was read."
