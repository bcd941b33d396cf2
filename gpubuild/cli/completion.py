"""``gpubuild completion SHELL``: a script that asks gpubuild for the words possible at the cursor."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpubuild.cli.console import Console
from gpubuild.cli.options import Parser, path
from gpubuild.cli.parser import make_parser
from gpubuild.errors import GpubuildError

FILES, FOLDERS, NOTHING = "files", "folders", "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Words with what they mean, and what else may stand there: ``FILES``, ``FOLDERS`` or ``NOTHING``."""

    words: tuple[tuple[str, str], ...] = ()
    besides: str = NOTHING


def candidates(words: Sequence[str]) -> Candidates:
    """What may take the place of the last of ``words``, which follow ``gpubuild`` on the line.

    Shells that cut words at ``=`` give ``--format``, ``=``, ``sv``; others ``--format=sv``.
    """
    *done, current = words or [""]
    if "--" in done:
        return Candidates(besides=FILES)  # the program's own
    if done and done[-1] == "=":
        done.pop()
    elif current == "=" and done:
        current = ""
    spot = _Spot(make_parser())
    for word in done:
        spot.pass_over(word)
    option, separator, value = current.partition("=")
    if spot.awaited is None and separator and option.startswith("--"):
        action = spot.find(option)
        found = _values(action, spot) if action is not None and _takes_value(action) else Candidates()
        kept = tuple((f"{option}={w}", text) for w, text in found.words if w.startswith(value))
        return Candidates(words=kept, besides=found.besides)
    if spot.awaited is not None:
        found = _values(spot.awaited, spot)
    elif current.startswith("-"):
        found = Candidates(words=tuple(_options(spot)))
    else:
        found = spot.positional()
    kept = tuple((word, text) for word, text in found.words if word.startswith(current))
    return Candidates(words=kept, besides=found.besides)


class _Spot:
    """Where on the line the cursor is: in which command, after which words."""

    def __init__(self, parser: Parser) -> None:
        self.parser = parser
        self.awaited: argparse.Action | None = None  # the option whose value comes next
        self.given: list[str] = []  # positional words of this command
        self.file = Path("targets.yaml")
        self.build_dir: Path | None = None
        self._seen: set[int] = set()

    def pass_over(self, word: str) -> None:
        """Take a whole word into account."""
        if self.awaited is not None:
            self._note(self.awaited, word)
            self.awaited = None
        elif word.startswith("-") and len(word) > 1:
            name, separator, value = word.partition("=")
            action = self.find(name)
            if action is None:
                return
            self._seen.add(id(action))
            if separator:
                self._note(action, value)
            elif _takes_value(action):
                self.awaited = action
        else:
            commands = _subcommands(self.parser)
            if word in commands:
                self.parser = commands[word]
                self.given = []
                self._seen = set()
            else:
                self.given.append(word)

    def find(self, name: str) -> argparse.Action | None:
        """The option called ``name``."""
        return next((a for a in self.parser._actions if name in a.option_strings), None)

    def repeatable(self, action: argparse.Action) -> bool:
        """Whether the option may still be given."""
        return id(action) not in self._seen or isinstance(action, argparse._AppendAction)

    def positional(self) -> Candidates:
        """What the next word that is no option may be."""
        if commands := _subcommands(self.parser):
            return Candidates(words=tuple(_described(self.parser, commands)))
        actions = [a for a in self.parser._actions if not a.option_strings]
        for at, action in enumerate(actions):
            if action.nargs in ("*", "+") or at == len(self.given):
                found = _values(action, self)
                return Candidates(
                    words=tuple(w for w in found.words if w[0] not in self.given), besides=found.besides
                )
        return Candidates()

    def _note(self, action: argparse.Action, value: str) -> None:
        if action.dest == "file":
            self.file = Path(value)
        elif action.dest == "build_dir":
            self.build_dir = Path(value)


def _options(spot: _Spot) -> Iterable[tuple[str, str]]:
    for action in spot.parser._actions:
        if action.option_strings and action.help is not argparse.SUPPRESS and spot.repeatable(action):
            for name in action.option_strings:
                yield name, action.help or ""


def _values(action: argparse.Action, spot: _Spot) -> Candidates:
    """What may stand for an option's value or a positional argument, by what help calls it."""
    if action.choices is not None:
        return Candidates(words=tuple((str(choice), "") for choice in action.choices))
    what = action.metavar if isinstance(action.metavar, str) else ""
    if what == "PROGRAM":
        return Candidates(words=tuple((name, "") for name in _project_names(spot, "programs")))
    if what == "TARGET":
        return Candidates(words=tuple((name, "") for name in _project_names(spot, "targets")))
    if what == "STEP":
        return Candidates(words=tuple((name, "") for name in _steps(spot)))
    if action.dest == "modules":
        names = dict.fromkeys(p[2] for s in _steps(spot) if len(p := s.split("/")) == 4 and p[1] == "compile")
        return Candidates(words=tuple((name, "") for name in names))
    if what == "DIR":
        return Candidates(besides=FOLDERS)
    return Candidates(besides=FILES if action.type is path or action.dest == "output" else NOTHING)


def _project_names(spot: _Spot, what: str) -> list[str]:
    from gpubuild.config.load import load_project

    try:
        project = load_project(spot.file)
    except GpubuildError:
        return []
    return list(project.programs if what == "programs" else project.targets)


def _steps(spot: _Spot) -> list[str]:
    """The steps of the last build."""
    from gpubuild.plan.layout import Layout

    root = spot.file.absolute().parent
    build_dir = Path.cwd() / spot.build_dir if spot.build_dir else root / "build"
    with suppress(OSError, ValueError, KeyError, TypeError):
        document: dict[str, Any] = json.loads(Layout(root=root, build_dir=build_dir).state_file.read_bytes())
        return sorted(document["steps"])
    return []


def _subcommands(parser: Parser) -> dict[str, Parser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _described(parser: Parser, commands: Iterable[str]) -> Iterable[tuple[str, str]]:
    texts: dict[str, str] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            texts = {choice.dest: choice.help or "" for choice in action._choices_actions}
    return ((name, texts[name]) for name in commands if name in texts)


def _takes_value(action: argparse.Action) -> bool:
    return action.nargs != 0


_BASH = r"""# bash completion for gpubuild:  eval "$(gpubuild completion bash)"
_gpubuild() {
    local line besides= command=${COMP_WORDS[0]/#\~/$HOME} current=${COMP_WORDS[COMP_CWORD]}
    [ "$current" = "=" ] && current=
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
        :*) besides=${line#:} ;;
        *) COMPREPLY+=("$(printf %q "${line%%$'\t'*}")") ;;
        esac
    done < <("$command" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    case $besides in
    files | folders)
        compopt -o filenames
        while IFS= read -r line; do
            COMPREPLY+=("$line")
        done < <(if [ $besides = files ]; then compgen -f -- "$current"; else compgen -d -- "$current"; fi)
        ;;
    esac
}
complete -F _gpubuild gpubuild
"""
_ZSH = r"""#compdef gpubuild
# zsh completion for gpubuild:  eval "$(gpubuild completion zsh)", after compinit
_gpubuild() {
    local line besides= tab=$'\t'
    local -a found
    for line in "${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        case $line in
        :*) besides=${line#:} ;;
        *$tab*) found+=("${${line%%$tab*}//:/\\:}:${line#*$tab}") ;;
        ?*) found+=("${line//:/\\:}") ;;
        esac
    done
    (( $#found )) && _describe -t gpubuild gpubuild found
    case $besides in
    files) _files ;;
    folders) _files -/ ;;
    esac
}
compdef _gpubuild gpubuild
"""
_FISH = r"""# fish completion for gpubuild:  gpubuild completion fish | source
function __gpubuild_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l command $words[1]
    for line in ($command __complete $words[2..-1] "$current" 2>/dev/null)
        switch $line
            case ':files'
                __fish_complete_path "$current"
            case ':folders'
                __fish_complete_directories "$current"
            case ':*'
            case '*'
                echo $line
        end
    end
end
complete -c gpubuild -f -a '(__gpubuild_complete)'
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def execute(options: argparse.Namespace) -> int:
    """The command."""
    console: Console = options.console
    console.out.write(SCRIPTS[options.shell])
    return 0


def answer(options: argparse.Namespace) -> int:
    """``gpubuild __complete WORD…``, for the scripts."""
    console: Console = options.console
    found = candidates(options.words)
    for word, text in found.words:
        # A meaning is one line without the marks of argparse's help.
        meaning = " ".join(text.replace("%%", "%").split())
        console.print(f"{word}\t{meaning}" if meaning else word)
    console.print(f":{found.besides}")
    return 0
