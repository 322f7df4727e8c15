"""Shell completion: scripts made from the tree of commands, and the names that they ask for.

A script knows commands and options by itself. For threads and branches it calls the hidden
`lastgood __complete`, with what has been typed. A name ends up on a command line that a person is
about to run, so only plain names are offered.
"""

from __future__ import annotations

import re
import sys
from argparse import Action, ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from lastgood import BlockingClient, LastgoodError
from lastgood.cli.command import Command
from lastgood.cli.store import opened

_PLAIN = re.compile(r"[\w.+:/~][\w.+:/~-]*")
"""Names that mean nothing to a shell."""
_OFFERED = 200


def _print_script(options: Namespace) -> int:
    sys.stdout.write(_SCRIPTS[options.shell](options.parser))
    return 0


# the tree


def commands(top: ArgumentParser) -> dict[str, ArgumentParser]:
    """The commands that are listed, in their order."""
    return {name: sub for name, sub in _all_commands(top).items() if not name.startswith("_")}


def _all_commands(top: ArgumentParser) -> dict[str, ArgumentParser]:
    found = next(a for a in top._actions if isinstance(a, _SubParsersAction))
    return dict(found.choices)


def _helps(top: ArgumentParser) -> dict[str, str]:
    found = next(a for a in top._actions if isinstance(a, _SubParsersAction))
    return {choice.dest: choice.help or "" for choice in found._get_subactions()}


def _flags(parser: ArgumentParser) -> list[Action]:
    return [action for action in parser._actions if action.option_strings]


def _places(parser: ArgumentParser) -> list[Action]:
    return [action for action in parser._actions if not action.option_strings]


def _names(parser: ArgumentParser) -> str:
    return " ".join(flag.option_strings[-1] for flag in _flags(parser))


# the scripts

_BASH = """\
# Completion of lastgood for bash. Load it: source <(lastgood completion bash)
_lastgood() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} word command="" words=()
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case $word in {pattern}) command=$word; break ;; esac
    done
    case $command in
{cases}
        *) words=({commands}) ;;
    esac
    if [[ -n $command && $cur != -* ]]; then
        mapfile -t words < <(lastgood __complete -- "${{COMP_WORDS[@]:1:COMP_CWORD-1}}" 2>/dev/null)
    fi
    COMPREPLY=()
    for word in "${{words[@]}}"; do
        [[ $word == "$cur"* ]] && COMPREPLY+=("$word")
    done
}}
complete -o default -F _lastgood lastgood
"""
_ZSH = """\
#compdef lastgood
# Completion of lastgood for zsh. Load it: source <(lastgood completion zsh)
_lastgood() {{
    local word command=""
    local -a found
    for word in "${{(@)words[2,CURRENT-1]}}"; do
        case $word in ({pattern}) command=$word; break ;; esac
    done
    case $command in
{cases}
        (*) found=({commands}) ;;
    esac
    if [[ -n $command && ${{words[CURRENT]}} != -* ]]; then
        found=("${{(@f)$(lastgood __complete -- "${{(@)words[2,CURRENT-1]}}" 2>/dev/null)}}")
    fi
    compadd -a found
}}
compdef _lastgood lastgood
"""


def _bash(top: ArgumentParser) -> str:
    found = commands(top)
    cases = "\n".join(f"        {name}) words=({_names(sub)}) ;;" for name, sub in found.items())
    return _BASH.format(pattern="|".join(found), cases=cases, commands=" ".join(found))


def _zsh(top: ArgumentParser) -> str:
    found = commands(top)
    cases = "\n".join(f"        ({name}) found=({_names(sub)}) ;;" for name, sub in found.items())
    return _ZSH.format(pattern="|".join(found), cases=cases, commands=" ".join(found))


def _fish(top: ArgumentParser) -> str:
    return "\n".join(_fish_lines(top)) + "\n"


def _fish_lines(top: ArgumentParser) -> Iterator[str]:
    yield "# Completion of lastgood for fish. Load it: lastgood completion fish | source"
    yield "complete -c lastgood -f"
    helps = _helps(top)
    for name, sub in commands(top).items():
        about = _fish_quoted(helps[name])
        yield f"complete -c lastgood -n __fish_use_subcommand -a {name} -d {about}"
        seen = f"complete -c lastgood -n '__fish_seen_subcommand_from {name}'"
        for flag in _flags(sub):
            long = flag.option_strings[-1].lstrip("-")
            value = " -r" if flag.nargs != 0 else ""
            yield f"{seen} -l {long}{value} -d {_fish_quoted(flag.help or '')}"
        if _places(sub):
            yield f"{seen} -a '(lastgood __complete -- (commandline -opc)[2..] 2>/dev/null)'"


def _fish_quoted(text: str) -> str:
    inner = text.replace("%%", "%").replace("\\", "\\\\").replace("'", "\\'")
    return f"'{inner}'"


_SCRIPTS: dict[str, Callable[[ArgumentParser], str]] = {"bash": _bash, "fish": _fish, "zsh": _zsh}


# the names


def _print_names(options: Namespace) -> int:
    """Offer what may stand next; whatever goes wrong, offer nothing."""
    try:
        for name in _offers(options):
            print(name)
    except (LastgoodError, ValueError, KeyError):
        return 1
    return 0


def _offers(options: Namespace) -> list[str]:
    words: list[str] = options.rest
    found = _all_commands(options.parser)
    name = next((word for word in words if word in found), None)
    if name is None:
        return []
    flags = {text: flag for flag in _flags(found[name]) for text in flag.option_strings}
    last = flags.get(words[-1])
    typed = list(_typed(words[words.index(name) + 1 :], flags))
    if last is None or last.nargs == 0:
        places = _places(found[name])
        last = places[len(typed)] if len(typed) < len(places) else None
    return [] if last is None else _values(last, typed, options)


def _typed(words: Sequence[str], flags: dict[str, Action]) -> Iterator[str]:
    """What was typed besides options and their values."""
    rest = iter(words)
    for word in rest:
        if word in flags and flags[word].nargs != 0:
            next(rest, None)
        elif not word.startswith("-"):
            yield word


def _values(wanted: Action, typed: list[str], options: Namespace) -> list[str]:
    if wanted.choices is not None:
        return [str(choice) for choice in wanted.choices]
    names = _NAMES.get(str(wanted.metavar))
    if names is None or (wanted.option_strings and wanted.dest != "branch"):
        return []
    with opened(_with_store(options)) as client:
        return [name for name in names(client, typed) if _PLAIN.fullmatch(name)]


def _with_store(options: Namespace) -> Namespace:
    """The store that was typed before, if any."""
    words: list[str] = options.rest
    typed = {
        flag.lstrip("-"): value
        for flag, value in pairwise(words)
        if flag in ("--store", "--tenant")
    }
    return Namespace(**typed)


def _threads(client: BlockingClient, _: list[str]) -> list[str]:
    return [info.thread_id for info in client.threads(limit=_OFFERED)]


def _branches(client: BlockingClient, typed: list[str]) -> list[str]:
    return sorted({branch.name for branch in client.branches(typed[0])}) if typed else []


_NAMES: dict[str, Callable[[BlockingClient, list[str]], list[str]]] = {
    "THREAD": _threads,
    "REF": _threads,
    "A": _threads,
    "B": _threads,
    "BRANCH": _branches,
    "NAME": _branches,
}


def _completion_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "shell", metavar="SHELL", choices=sorted(_SCRIPTS), help="bash, fish or zsh"
    )


def _complete_options(parser: ArgumentParser) -> None:
    parser.add_argument("rest", nargs="*")


COMPLETION = Command(
    name="completion",
    help="print a script that completes commands and names in a shell",
    description="Print a script that completes commands, options, threads and branches in a shell.",
    options=_completion_options,
    run=_print_script,
    epilog="""\
examples:
  source <(lastgood completion bash)       in ~/.bashrc
  source <(lastgood completion zsh)        in ~/.zshrc
  lastgood completion fish | source        in config.fish""",
)
COMPLETE = Command(
    name="__complete",
    help="",
    description="What may stand next on a command line; for the completion scripts.",
    options=_complete_options,
    run=_print_names,
    takes_rest=True,
)
