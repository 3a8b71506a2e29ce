"""Completion for bash, which takes words apart at each `:` and `=`, and so every URL and URI.

The words are read from the line as it was typed, and what is offered begins where bash thinks that the word does. It is
written as the shell wants it: a server may put blanks, or worse, into its names.
"""

import os
import re
from typing import Final

from click.shell_completion import BashComplete, CompletionItem, add_completion_class, split_arg_string

_SCRIPT: Final = """\
%(complete_func)s() {
    local type value
    COMPREPLY=()
    while IFS=, read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done < <(env COMP_LINE="${COMP_LINE:0:$COMP_POINT}" COMP_WORDBREAKS="$COMP_WORDBREAKS" \\
        %(complete_var)s=bash_complete "$1")
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""
_ODD: Final = re.compile(r"[^\w./:@%+=,-]")
_NOT_IN_QUOTES: Final = re.compile(r"""['"$`\\!]""")


class Bash(BashComplete):
    """Takes the place of click's own."""

    source_template = _SCRIPT
    _typed = ""
    _quote = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one that is being typed, and that one."""
        line = os.environ["COMP_LINE"]
        words = split_arg_string(line)
        self._quote = _open_quote(line)
        self._typed = words.pop() if words and (self._quote or not line[-1].isspace()) else ""
        return words[1:], self._typed

    def format_completion(self, item: CompletionItem) -> str:
        """One offer; an empty one if it cannot be written within the quotes that are open."""
        if item.type != "plain":
            return super().format_completion(item)
        value: str = item.value
        if self._quote:
            return "" if _NOT_IN_QUOTES.search(value) else f"plain,{value}"
        breaks = os.environ.get("COMP_WORDBREAKS", ":=")
        begins = 1 + max(self._typed.rfind(each) for each in ":=" if each in breaks) if set(":=") & set(breaks) else 0
        return f"plain,{_ODD.sub(lambda found: chr(92) + found[0], value[begins:])}"


def use() -> None:
    """Have bash completed in this way."""
    add_completion_class(Bash)


def _open_quote(line: str) -> str:
    """The quotation mark that was not closed yet."""
    quote, skip = "", False
    for each in line:
        if skip:
            skip = False
        elif each == "\\" and quote != "'":
            skip = True
        elif quote:
            quote = "" if each == quote else quote
        elif each in "'\"":
            quote = each
    return quote
