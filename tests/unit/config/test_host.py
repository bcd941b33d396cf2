"""Options of compilers: which are taken, and why others are not."""

from pathlib import Path

# ruff: noqa: E501 - a table reads best with one row a line
import pytest

from gpubuild.config.host import refusal
from gpubuild.config.load import loads
from gpubuild.model.project import CompilerOptions, Project

TAKEN = """
-Wall -Wextra -Wno-unused-parameter -Wformat=2 -Werror -Werror=return-type -Wframe-larger-than=4096 -w -pedantic
-pedantic-errors -O0 -O3 -Og -Ofast -funroll-loops -fno-math-errno -ffast-math -fvisibility=hidden -fno-rtti
-fno-exceptions -fopenmp -fsanitize=address -fsanitize=undefined,address -fstack-protector-strong -fcf-protection=none
-ffp-contract=off -fexceptions -mavx2 -march=x86-64-v3 -mtune=generic -mno-red-zone -mcpu=apple-m1 -UNDEBUG -pthread
-gdwarf-4 -gz=zlib --param=max-inline-insns-single=9 -nostdinc -nostdinc++ -stdlib=libc++ -trigraphs -undef
-fmax-errors=3 -fwrapv -fno-strict-aliasing -fshort-enums
"""
REFUSED = {
    "include:": "-I -Iinc -isystem -isystem=x -iquote -idirafter/x",
    "define:": "-D -DX -DX=1 --define-macro=X",
    "std:": "-std=c11 --std=c11 -ansi",
    "#include in the source": "-include -includea.h -imacros",
    "link:": "-lm -L/x -Wl,-z,now -Xlinker -fuse-ld=lld -static -static-libgcc -shared -pie -s -rdynamic",
    "passes options on": "-Wp,-MD,x -Wa,-L -Xclang -Xpreprocessor -mllvm -B/x -specs=x -wrapper",
    "suffix": "-x -xc -xc++",
    "the build chooses": "-c -S -E -o -ox -oa.o -M -MM -MD -MF -MFx -fsyntax-only -### -dumpbase -dM -P -C",
    "debug: true": "-g -g3 -ggdb -ggdb3",
    "beside the object": "-gsplit-dwarf -grecord-gcc-switches -frecord-gcc-switches",
    "building machine": "-march=native -mtune=native -mcpu=native",
    "this machine's architecture": "-m32 -m16 -mx32",
    "position-independent": "-fno-pic -fPIE -fpie -fno-PIC",
    "machine code": "-flto -flto=thin -flto=auto -emit-llvm",
    "same everywhere": "-frandom-seed=1 -ffile-prefix-map=a=b -fmacro-prefix-map=a=b -fdebug-prefix-map=a=b",
    "reads the compiler's messages": "-fdiagnostics-color=always -fdiagnostics-format=json -fno-diagnostics-show-caret "
    "-fcolor-diagnostics -fmessage-length=0 -fno-show-column -fno-caret-diagnostics",
    "files unknown to the build": "-fplugin=x.so -fprofile-generate -fprofile-use=x -fauto-profile -ftest-coverage "
    "--coverage -fcallgraph-info -fstack-usage -fopt-info-vec=x -fsave-optimization-record -fdump-tree-all -ftime-trace "
    "-fmodules -fmodules-ts -fmodule-file=x -fpch-preprocess -fcrash-diagnostics-dir=/x -save-temps "
    "-fsanitize-ignorelist=x -fsanitize-coverage-allowlist=x -fbranch-probabilities -fpass-plugin=x",
    "accepted options are": "-z -z=now --param -u -T --sysroot=/x -isysroot -aux-info -v --help --version -Q -p -pg -O9 -U "
    "-target --target=x -arch -fuse/x -nostdlib -e -A -G -b",
    "write options here": "@file",
}  # fmt: skip


@pytest.mark.parametrize("flag", TAKEN.split())
def test_taken(flag: str) -> None:
    assert refusal(flag) == ""


@pytest.mark.parametrize(("why", "flags"), REFUSED.items(), ids=REFUSED)
def test_refused(why: str, flags: str) -> None:
    for flag in flags.split():
        assert why in refusal(flag), (flag, refusal(flag))
    assert "item of its own" in refusal("-Wall -Wextra")


# ---- options of sources ----


HEAD = "version: 1\ntargets: {cpu: }\n"


def load(root: Path, text: str) -> Project:
    for name in ("a.c", "b.c", "x.cpp", "k.mlir"):
        (root / name).touch()
    for name in ("inc", "own"):
        (root / name).mkdir(exist_ok=True)
    return loads((HEAD + text).encode(), root / "targets.yaml")


def test_the_more_special_goes_first(tmp_path: Path) -> None:
    project = load(
        tmp_path,
        """\
host:
  include: [inc]
  define: {N: 1, M: 1}
  std: [c11, c++17]
  flags: {c: [-O1], c++: [-O2]}
  sources:
    a.c: {define: {N: 2}, std: c99, flags: [-Wall]}
    ./x.cpp: {std: c++20}
programs:
  one:
    sources: [a.c, b.c, x.cpp, k.mlir]
    host:
      define: {N: 3, M: 3}
      flags: [-Og]
      sources: {a.c: {include: [own], flags: [-w]}}
  two: {sources: [a.c, x.cpp]}
""",
    )
    one, two = project.programs["one"], project.programs["two"]

    def of(name: str, program=one) -> CompilerOptions:
        return program.host_of(tmp_path / name)

    assert of("a.c") == CompilerOptions(
        std="c99", include=("own", "inc"), define=("N=2", "M=3"), flags=("-O1", "-Og", "-Wall", "-w")
    )
    assert of("b.c") == CompilerOptions(
        std="c11", include=("inc",), define=("N=3", "M=3"), flags=("-O1", "-Og")
    )
    assert of("x.cpp").std == of("x.cpp", two).std == "c++20"
    assert of("x.cpp").flags == ("-O2", "-Og")
    assert of("a.c", two).define == ("N=2", "M=1")
    assert set(one.source_hosts) == {tmp_path / "a.c", tmp_path / "x.cpp"}
