"""Programs without gpubuild's linker: `run --jit` from the objects, and `export` for another machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from e2e.command import SAXPY, Outcome, gpubuild, saxpy_project
from e2e.test_programs import DOUBLE, project

# Constructors with and without priority, what runs at exit, arguments, and data of the C library.
MAIN = """\
#include <stdio.h>
#include <stdlib.h>
long _mlir_ciface_twice(long);
static long n;
__attribute__((constructor)) static void late(void) { n = n * 10 + 2; }
__attribute__((constructor(200))) static void early(void) { n = n * 10 + 1; }
__attribute__((destructor)) static void last(void) { fprintf(stdout, "last\\n"); }
static void at_exit(void) { printf("exit\\n"); }
int main(int argc, char **argv) {
  atexit(at_exit);
  printf("%ld %ld %d %s\\n", _mlir_ciface_twice(21), n, argc, argv[argc - 1]);
  exit(argc > 2 ? 7 : 0);
}
"""
CXX = """\
#include <stdexcept>
#include <string>
struct Noisy { std::string text = "made"; ~Noisy() { std::puts(("unmade " + text).c_str()); } };
static Noisy noisy;
extern "C" long from_cxx(long v) {
  try {
    throw std::runtime_error(noisy.text);
  } catch (std::exception &e) {
    return v + std::string(e.what()).size();
  }
}
"""
# A static function called like a global one of another object.
CLASH = """\
#include <stdio.h>
int call(void);
static int helper(int x) { return x + 1; }
static int (*volatile hold)(int) = helper;
__attribute__((constructor(101))) static void show(void) { printf("%d %d\\n", hold(1), call()); }
"""
PROGRAMS = """\
targets: {cpu: {}}
programs:
  app: {sources: [k.mlir, main.c]}
  again: {sources: [k.mlir, second.mlir, plus.c, cxx.cpp], link: {libraries: [m]}}
  threads: {sources: [k.mlir, main.c, local.c]}
  clash: {sources: [k.mlir, main.c, clash.c, user.c]}
  twice: {sources: [k.mlir, main.c, user.c, user2.c]}
  missing: {sources: [k.mlir, missing.c]}
  flags: {sources: [k.mlir, main.c], link: {flags: ["-Wl,-z,now"]}}
"""


@pytest.fixture(scope="session")
def cpu(shared_cache: dict[str, str]) -> dict[str, str]:
    return {**shared_cache, "GPUBUILD_DEVICE": "cpu"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    second = DOUBLE.replace("@k", "@k2").replace("@twice", "@twice2")
    plus = """\
#include <stdio.h>
#include <math.h>
long _mlir_ciface_twice(long), _mlir_ciface_twice2(long), from_cxx(long);
int main(void) { printf("%ld %.1f\\n", from_cxx(_mlir_ciface_twice2(_mlir_ciface_twice(1))), sqrt(16.0)); }
"""
    return project(
        tmp_path_factory.mktemp("jit"),
        PROGRAMS,
        main_c=MAIN,
        second_mlir=second,
        plus_c=plus,
        cxx_cpp="#include <cstdio>\n" + CXX,
        local_c="_Thread_local int each;\nint get(void) { return each; }\n",
        clash_c=CLASH,
        user_c="int helper(int x) { return x - 1; }\nint call(void) { return helper(1); }\n",
        user2_c="int helper(int x) { return x - 2; }\n",
        missing_c="long _mlir_ciface_twice(long); int absent(void); int main(void) { return absent(); }\n",
    )


def jit(folder: Path, cpu: dict[str, str], program: str, *arguments: str) -> Outcome:
    return gpubuild("run", "-q", "--jit", program, "--", *arguments, cwd=folder, env=cpu)


def test_the_same_as_the_executable(folder: Path, cpu: dict[str, str]) -> None:
    ran = jit(folder, cpu, "app", "x", "y")
    assert (ran.code, ran.out) == (7, "42 12 3 y\nexit\nlast\n"), ran.err
    assert not (folder / "build/app/app").exists()
    linked = gpubuild("run", "-q", "app", "--", "x", "y", cwd=folder, env=cpu)
    assert (linked.code, linked.out) == (ran.code, ran.out)


def test_modules_of_two_sources_and_cxx(folder: Path, cpu: dict[str, str]) -> None:
    ran = jit(folder, cpu, "again")
    assert (ran.code, ran.out) == (0, "8 4.0\nunmade made\n"), ran.err


def test_static_functions_are_their_objects_own(folder: Path, cpu: dict[str, str]) -> None:
    ran = jit(folder, cpu, "clash")
    assert (ran.code, ran.out.splitlines()[0]) == (0, "2 0"), ran.err


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("threads", "thread-local variables"),
        ("twice", "duplicate definition of symbol 'helper'"),
        ("missing", "nothing defines absent"),
        ("flags", "-Wl,-z,now"),
    ],
)
def test_what_cannot_be_loaded_is_refused(folder: Path, cpu: dict[str, str], program: str, said: str) -> None:
    ran = jit(folder, cpu, program)
    assert ran.code in (1, 2)
    assert said in ran.err
    assert "without --jit" in ran.err
    assert ran.out == ""


def test_failures_of_the_runtime_are_the_programs(folder: Path, cpu: dict[str, str]) -> None:
    ran = gpubuild("run", "-q", "--jit", "app", cwd=folder, env={**cpu, "GPUBUILD_DEVICE": "cuda:63"})
    assert ran.code == 1
    assert "cuda" in ran.err
    assert "\n  program: app\n" in ran.err
    assert ran.out == ""


def test_export_links_with_a_plain_compiler_elsewhere(tmp_path: Path, cpu: dict[str, str]) -> None:
    cc = shutil.which("cc") or shutil.which("gcc")
    if cc is None:
        pytest.skip("no C compiler of the system's")
    folder = saxpy_project(tmp_path / "p", SAXPY.replace("sm_60: {}, sm_90: {}, gfx90a", "gfx90a"))
    done = gpubuild("export", "-o", tmp_path / "out", cwd=folder, env=cpu)
    assert done.code == 0, done.err
    assert gpubuild("export", "-o", folder, cwd=folder).code == 2
    elsewhere = tmp_path / "else where"
    shutil.move(tmp_path / "out", elsewhere)
    shutil.rmtree(folder)
    assert {"host.o", "host.ll", "main.o", "link.sh", "runtime", "saxpy.places.txt"} == {
        p.name for p in elsewhere.iterdir()
    }
    environment = {"PATH": os.defpath, "CC": cc}
    subprocess.run(["sh", elsewhere / "link.sh"], env=environment, cwd=tmp_path, check=True)
    ran = subprocess.run([elsewhere / "saxpy"], env=cpu, capture_output=True, text=True, check=False)
    assert (ran.returncode, "OK" in ran.stdout) == (0, True), ran.stderr
