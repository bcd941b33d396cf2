"""Host flags: which options of a C or C++ compiler ``host: flags:`` may hold.

Those that say how code is made (``-f``, ``-m``, ``-O``) and what is warned of (``-W``). Not those that
have keys of their own, and not those that a build could no longer answer for: options that say what
is compiled or where it goes, that read or write files of which no key knows, that depend on the
machine, that take the next argument for their value, or whose output nobody could read places from.
"""

from __future__ import annotations

import re

# The first that matches tells why. Compiled when needed: most projects have no flags, and it takes a while.
_REFUSED = (
    (r"-I.*|-(isystem|iquote|idirafter).*|--include-directory.*", "folders go under `include:`"),
    (r"-D.*|--define-macro.*", "macros go under `define:`"),
    (r"--?std=.*|-ansi", "the standard goes under `std:`"),
    (r"-(include|imacros).*", "write the #include in the source"),
    (r"-[lL].*|-Wl,.*|-Xlinker.*|-fuse-ld.*|-s|-static.*|-shared.*|-rdynamic|-pie|-no-pie|-r",
     "it is for the linker: see `link:`"),
    (r"-W[ap],.*|-X.*|-mllvm.*|-B.*|-specs.*|-wrapper.*",
     "it hands on options that nothing here can check"),
    (r"-x.*|-ObjC.*", "the suffix of a source says what language it is in"),
    (r"-[cSEo].*|-fsyntax-only|-###|-M.*|-fpreprocessed|-fdirectives-only|-frewrite-.*|-d.*|-P|-C|-CC",
     "what a compiler makes, and where, is the build's to say"),
    (r"-g\d?|-ggdb\d?", "`defaults: {debug: true}` makes debug information"),
    (r"-gsplit-dwarf.*|-g(no-)?record.*|-frecord-.*",
     "it puts something beside the object, or the build's own folders into it"),
    (r"-m\w+(-\w+)*=native|-mnative", "code would depend on the machine that builds; name the processor"),
    (r"-m(32|16|x32|64)", "programs are made for this machine's kind of processor"),
    (r"-f(no-)?(pic|PIC|pie|PIE)|-mno-pic.*|-mdynamic-no-pic",
     "objects are position-independent, for executables and libraries alike"),
    (r"-f(fat-)?lto.*|-fthinlto.*|-fwhole-program.*|-femit-llvm|-emit-llvm",
     "objects must be machine code that any linker can take"),
    (r"-f(no-)?(random-seed|(file|macro|debug|profile|coverage)-prefix-map).*",
     "the build sets it, so that objects are the same everywhere"),
    (r"-f(no-)?(diagnostics|color-diagnostics|message|show-|caret|absolute-diagnostics|ansi-escape).*",
     "the build reads the compiler's messages"),
    (r"-f(plugin|profile|auto-profile|branch-prob|test-cov|coverage|callgraph|stack-usage|opt-info"
     r"|save-opt|foptimization-record|optimization-record|dump|time-trace|module|implicit-module|prebuilt"
     r"|pch|crash|working-directory|build-session|memory-profile|xray|cs-profile|sanitize-[\w-]*list"
     r"|sanitize-[\w-]*=/|pass-plugin|overlay|vfs|ident=|report|mem-report|compare-debug).*|--coverage|-save-temps.*",
     "it reads or writes files that the build does not know of"),
)  # fmt: skip
_TAKEN = (
    r"-W\w[\w+=,.-]*|-w|-pedantic(-errors)?|-f\w[\w+=,.:-]*|-m\w[\w+=,.:-]*|-O([0-3sgz]|fast)?"
    r"|-U[A-Za-z_]\w*|-pthread|-g\w[\w+=-]*|--param=\S+|-nostdinc(\+\+)?|-stdlib=\w[\w+-]*|-trigraphs|-undef"
)


def refusal(flag: str) -> str:
    """Why ``flag`` is not taken; empty when it is."""
    if flag.startswith("@"):
        return "options are to be seen here, not in a file"
    for pattern, reason in _REFUSED:
        if re.fullmatch(pattern, flag):
            return reason
    if " " in flag.strip() and re.match(_TAKEN, flag):
        return "write each option as an item of its own"
    if re.fullmatch(_TAKEN, flag):
        return ""
    return (
        "the options taken are -W…, -w, -pedantic, -f…, -m…, -O…, -U…, -g…, --param=…, -pthread, "
        "-nostdinc and -stdlib=…"
    )
