"""``gpubuild completion SHELL``: a script that asks gpubuild itself what may stand at the cursor.

The script hands over the words up to the cursor (``gpubuild __complete WORD…``) and gets a line
per candidate, its meaning behind a tab, then ``:`` and what else may stand there. Asking costs what
a short command costs, and knows the programs and targets of the project.
"""

from __future__ import annotations

import argparse

from gpubuild.cli.candidates import candidates
from gpubuild.cli.console import Console

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
