"""Warnings about programs that work, and do not do what their author wants on a GPU."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from e2e.command import gpubuild, project_file, run_on_cpu, write
from variants import few

from gpubuild.targets import cpu
from gpubuild.targets.registry import vendor

MODULE = """module attributes {gpu.container_module} {
  memref.global "private" @g : memref<64xf32> = dense<1.0>
  gpu.module @k {
    gpu.func @f(%a: memref<64xf32>) kernel { gpu.return }
  }
  func.func private @unknown(memref<64xf32>)
  func.func private @done(!gpu.async.token)
  func.func @host(%argument: memref<64xf32>) {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %n = arith.constant 1024 : index
    BODY
    return
  }
}
"""
LAUNCH = (
    "gpu.launch_func @k::@f blocks in (%n, %one, %one) threads in (%n, %one, %one) args({} : memref<64xf32>)"
)
SINGLE = LAUNCH.replace("threads in (%n", "threads in (%one").format("%argument")
FEW = SINGLE.replace("blocks in (%n", "blocks in (%one")
MAPPING = "{mapping = [#gpu.loop_dim_map<processor = PROCESSOR, map = (d0) -> (d0), bound = (d0) -> (d0)>]}"
PARALLEL = f"scf.parallel (%i) = (%zero) to (%n) step (%one) {{ scf.reduce }} {MAPPING}"
CAST = "%any = memref.cast %a : memref<64xf32> to memref<*xf32>"
ALLOC = "%a = memref.alloc() : memref<64xf32>"
FORALL = "scf.forall (%i) in (4) { }"
HOST_MEMORY = {
    "alloc": (f"{ALLOC}\n{LAUNCH.format('%a')}", "a 'memref.alloc' of type memref<64xf32>"),
    "alloca": (
        f"%a = memref.alloca() : memref<64xf32>\n{LAUNCH.format('%a')}",
        "a 'memref.alloca' of type memref<64xf32>",
    ),
    "view": (
        "%a = memref.alloc() : memref<128xf32>\n"
        f"%v = memref.subview %a[0] [64] [1] : memref<128xf32> to memref<64xf32>\n{LAUNCH.format('%v')}",
        "a 'memref.alloc' of type memref<128xf32>",
    ),
    "global": (
        f"%a = memref.get_global @g : memref<64xf32>\n{LAUNCH.format('%a')}",
        "@g of type memref<64xf32>",
    ),
    "registered": (f"{ALLOC}\n{CAST}\ngpu.host_register %any : memref<*xf32>\n{LAUNCH.format('%a')}", ""),
    "registered global": (
        f"%a = memref.get_global @g : memref<64xf32>\n{CAST}\ngpu.host_register %any : memref<*xf32>\n"
        f"%b = memref.get_global @g : memref<64xf32>\n{LAUNCH.format('%b')}",
        "",
    ),
    "called": (
        f"{ALLOC}\nfunc.call @unknown(%a) : (memref<64xf32>) -> ()\n{LAUNCH.format('%a')}",
        "",
    ),
    "shared": (f"%a = gpu.alloc host_shared () : memref<64xf32>\n{LAUNCH.format('%a')}", ""),
    "argument": (LAUNCH.format("%argument"), ""),
}
WORK = {
    "single": (SINGLE, "@k::@f: 1024 workgroups of one work-item"),
    "few": (FEW, ""),
    "parallel": (PARALLEL.replace("PROCESSOR", "block_x"), "this 'scf.parallel' is mapped to the GPU"),
    "sequential": (PARALLEL.replace("PROCESSOR", "sequential"), ""),
    "forall": (
        f"{FORALL} {{mapping = [#gpu.thread<x>]}}",
        "this 'scf.forall' is mapped to the GPU, and runs on the host",
    ),
    "plain forall": (FORALL, ""),
}

M = "memref<64xf32>"
COPY = f"%d = gpu.alloc () : {M}\n%s = gpu.wait async\n%t = gpu.memcpy async [%s] %argument, %d : {M}, {M}"
COPIES = {
    "no wait": (COPY, "nothing waits for this copy: write `gpu.wait [%token]`"),
    "wait": (f"{COPY}\ngpu.wait [%t]", ""),
    "to the device": (COPY.replace("%argument, %d", "%d, %argument"), ""),
    "passed on": (f"{COPY}\nfunc.call @done(%t) : (!gpu.async.token) -> ()", ""),
    "own memory": (
        COPY.replace("%t =", f"%a = memref.alloc() : {M}\n%t =").replace("%argument,", "%a,"),
        "nothing waits for this copy",
    ),
}
FREES = {
    "device": (
        f"%d = gpu.alloc () : {M}\nmemref.dealloc %d : {M}",
        "this frees memory of 'gpu.alloc', which only 'gpu.dealloc' can free",
    ),
    "host": (
        f"%d = memref.alloc () : {M}\ngpu.dealloc %d : {M}",
        "this frees memory of 'memref.alloc', which only 'memref.dealloc' can free",
    ),
    "right": (f"%d = gpu.alloc () : {M}\ngpu.dealloc %d : {M}", ""),
    "argument": (f"memref.dealloc %argument : {M}", ""),
}


MAIN = "void unknown(void) {}\nvoid done(void) {}\nint main(void) { return 0; }\n"


def write_programs(folder: Path, texts: list[str], main: str, targets: str) -> None:
    """A project with a program of each text."""
    programs = [f"app{number}: {{sources: [k{number}.mlir, main.c]}}" for number in range(len(texts))]
    files = {f"k{number}.mlir": text for number, text in enumerate(texts)}
    write(folder, files | {"main.c": main, "targets.yaml": project_file(*programs, targets=targets)})


def warnings(
    folder: Path, environment: dict[str, str], cases: dict[str, tuple[str, str]], targets: str
) -> dict[str, list[str]]:
    """Return the warnings of each case in a first build, which are those of a null build."""
    texts = [MODULE.replace("BODY", body) for body, _ in cases.values()]
    write_programs(folder, texts, MAIN, targets)
    first = gpubuild("build", "-q", cwd=folder, env=environment, code=0)
    again = gpubuild("build", "-q", cwd=folder, env=environment)
    # In the order in which steps ended.
    assert sorted(again.err.splitlines()) == sorted(first.err.splitlines())
    lines = [line for line in first.err.splitlines() if "warning: " in line]
    found = {case: [s for s in lines if f"k{n}.mlir:" in s] for n, case in enumerate(cases)}
    assert sum(map(len, found.values())) == len(lines)
    return found


def test_host_memory_that_kernels_get(tmp_path: Path, shared_cache: dict[str, str]) -> None:
    found = warnings(tmp_path, shared_cache, HOST_MEMORY, "cpu: {}, gfx90a: {}")
    for case, (body, what) in HOST_MEMORY.items():
        if what:
            (shown,) = found[case]
            assert f".mlir:{12 + body.count(chr(10))}:" in shown
            assert (
                f"warning: @k::@f gets host memory ({what}), which GPUs cannot access: use gpu.alloc" in shown
            )
        else:
            assert found[case] == []
    assert gpubuild("build", "-q", "-t", "cpu", cwd=tmp_path, env=shared_cache).err == ""


def test_work_that_leaves_a_gpu_idle(tmp_path: Path, shared_cache: dict[str, str]) -> None:
    found = warnings(tmp_path, shared_cache, WORK, "cpu: {}")
    for case, (_, message) in WORK.items():
        assert [f"warning: {message}" in s and ".mlir:12:5:" in s for s in found[case]] == [True] * bool(
            message
        )
    listed = json.loads(gpubuild("build", "--json", cwd=tmp_path, env=shared_cache).out)["summary"][
        "warnings"
    ]
    assert sorted((w["file"], w["line"], w["column"]) for w in listed) == [
        (f"k{number}.mlir", 12, 5) for number, (_, message) in enumerate(WORK.values()) if message
    ]


def test_copies_and_frees(tmp_path: Path, shared_cache: dict[str, str]) -> None:
    cases = {f"copy, {case}": told for case, told in COPIES.items()}
    cases |= {f"free, {case}": told for case, told in FREES.items()}
    found = warnings(tmp_path, shared_cache, cases, "cpu: {}")
    for case, (_, message) in cases.items():
        assert [message in shown for shown in found[case]] == [True] * bool(message), case


def test_a_main_that_waits_for_memory(tmp_path: Path, shared_cache: dict[str, str]) -> None:
    kernels = MODULE.replace("BODY", "").replace("@host", "@main")
    (tmp_path / "k.mlir").write_text(kernels.replace("func.func private @unknown(memref<64xf32>)\n", ""))
    called = kernels.replace("memref<64xf32>) {", "memref<64xf32>) attributes {llvm.emit_c_interface} {")
    (tmp_path / "called.mlir").write_text(called)
    yaml = project_file("p: {sources: [k.mlir]}", "called: {sources: [called.mlir], product: object}")
    (tmp_path / "targets.yaml").write_text(yaml)
    built = gpubuild("build", "-q", cwd=tmp_path, env=shared_cache)
    assert "warning: as the main of a program this gets no memory: allocate it inside" in built.err
    assert built.err.count("warning: ") == 1


def test_programs_without_a_kernel(tmp_path: Path, shared_cache: dict[str, str]) -> None:
    none, some = "none: {sources: [host.mlir, main.c]}", "some: {sources: [host.mlir, k.mlir, main.c]}"
    files = {"host.mlir": "func.func @alone() { return }\n", "k.mlir": MODULE.replace("BODY", "")}
    files |= {"main.c": MAIN, "targets.yaml": project_file(none, some, "c: {sources: [main.c]}")}
    write(tmp_path, files)
    built = gpubuild("build", "--json", cwd=tmp_path, env=shared_cache, code=0)
    message = (
        "program none has no kernel: all its code runs on the host, "
        "since host.mlir has no gpu.module or gpu.launch"
    )
    warning = {"severity": "warning", "code": "warning", "file": None, "line": None, "column": None}
    warning |= {"end_line": None, "end_column": None, "message": message, "notes": []}
    assert json.loads(built.out)["summary"]["warnings"] == [warning]
    for command in ("build", "check"):  # a build with nothing to do, too
        again = gpubuild(command, "--json", cwd=tmp_path, env=shared_cache)
        assert json.loads(again.out)["summary"]["warnings"] == [warning]
    assert gpubuild("build", "-q", cwd=tmp_path, env=shared_cache).err == f"warning: {message}\n"
    assert gpubuild("build", "-q", "some", "c", cwd=tmp_path, env=shared_cache).err == ""


def test_a_default_chip_without_the_instructions_of_this_machine(
    tmp_path: Path, shared_cache: dict[str, str]
) -> None:
    targets = "cpu: {}, x86-64-v2: {}, v2: {kind: cpu, chip: x86-64-v2}"
    write_programs(tmp_path, [MODULE.replace("BODY", "")], MAIN, targets)
    chip = vendor("cpu").faster_chip("cpu", "x86-64-v2", os.uname().machine)
    note = (
        "note: target cpu is for all x86-64-v2 CPUs; this machine has faster instructions: "
        f"write cpu: {{chip: {chip}}}, or {{chip: native}}"
    )
    assert in_terminal(tmp_path, shared_cache).count(note) == bool(chip)
    assert "note:" not in in_terminal(tmp_path, shared_cache)
    shutil.rmtree(tmp_path / "build")
    assert gpubuild("build", cwd=tmp_path, env=shared_cache).err == ""


def in_terminal(folder: Path, environment: dict[str, str]) -> str:
    """Return what a build writes to a terminal that is wide enough for one line."""
    main, other = pty.openpty()
    try:
        command = [sys.executable, "-m", "gpubuild", "build"]
        given = {**os.environ, **environment, "COLUMNS": "200", "NO_COLOR": "1"}
        process = subprocess.Popen(
            command, cwd=folder, env=given, stdout=subprocess.DEVNULL, stderr=other, stdin=subprocess.DEVNULL
        )
        os.close(other)
        written = b""
        with suppress(OSError):  # the other end is closed
            while data := os.read(main, 1 << 16):
                written += data
        assert process.wait() == 0
        return written.decode()
    finally:
        os.close(main)


ACCESSES = """module attributes {gpu.container_module} {
  memref.global "private" @table : memref<64xf32> = dense<1.0>
  gpu.module @k {
    memref.global "private" constant @c : memref<4xf32> = dense<[1.0, 2.0, 3.0, 4.0]>
    gpu.func @f(%a: memref<64xf32>) workgroup(%w: memref<64xf32, #gpu.address_space<workgroup>>)
        private(%p: memref<4xf32, #gpu.address_space<private>>) kernel {
      %i = gpu.thread_id x
      %four = arith.constant 4 : index
      %m = arith.remui %i, %four : index
      %c = memref.get_global @c : memref<4xf32>
      %x = memref.load %c[%m] : memref<4xf32>
      memref.store %x, %p[%m] : memref<4xf32, #gpu.address_space<private>>
      %y = memref.load %p[%m] : memref<4xf32, #gpu.address_space<private>>
      memref.store %y, %w[%i] : memref<64xf32, #gpu.address_space<workgroup>>
      gpu.barrier
      %z = memref.load %w[%i] : memref<64xf32, #gpu.address_space<workgroup>>
      memref.store %z, %a[%i] : memref<64xf32>
      gpu.return
    }
  }
  func.func @run(%argument: memref<64xf32>) attributes {llvm.emit_c_interface} {
    %one = arith.constant 1 : index
    %n = arith.constant 64 : index
    BODY
    gpu.launch_func @k::@f blocks in (%one, %one, %one) threads in (%n, %one, %one) args(%a : memref<64xf32>)
    END
    return
  }
}
"""
REGISTER = (
    "%u = memref.cast %argument : memref<64xf32> to memref<*xf32>\ngpu.host_register %u : memref<*xf32>"
)
MEMORY = {  # what is before the launch and behind it, and whether a GPU could access the memory
    "argument": ("%a = memref.cast %argument : memref<64xf32> to memref<64xf32>", "", False),
    "global": ("%a = memref.get_global @table : memref<64xf32>", "", False),
    "alloc": ("%a = memref.alloc() : memref<64xf32>", "", False),
    "gpu.alloc": ("%a = gpu.alloc () : memref<64xf32>", "gpu.dealloc %a : memref<64xf32>", True),
    "registered": (f"{REGISTER}\n%a = memref.cast %argument : memref<64xf32> to memref<64xf32>", "", True),
    "unregistered": (
        f"{REGISTER}\ngpu.host_unregister %u : memref<*xf32>\n"
        "%a = memref.cast %argument : memref<64xf32> to memref<64xf32>",
        "",
        False,
    ),
}


RUN = (
    "#include <stdint.h>\nstruct { void *base, *data; int64_t offset, size, stride; } m;\n"
    "float values[64];\nvoid _mlir_ciface_run(void *);\n"
    "int main(void) {\n  m.base = m.data = values; m.size = 64; m.stride = 1;\n"
    "  _mlir_ciface_run(&m);\n  return 0;\n}\n"
)


@pytest.mark.parametrize("checks", few(["bounds, race, uninitialized, host-memory", "host-memory"]))
def test_host_memory_at_run_time(tmp_path: Path, shared_cache: dict[str, str], checks: str) -> None:
    texts = [ACCESSES.replace("BODY", before).replace("END", after) for before, after, _ in MEMORY.values()]
    write_programs(tmp_path, texts, RUN, f"c: {{kind: cpu, chip: x86-64-v2, sanitize: [{checks}]}}")
    gpubuild("build", "-q", cwd=tmp_path, env=shared_cache, code=0)
    for number, (_, _, good) in enumerate(MEMORY.values()):
        outcome = run_on_cpu(tmp_path / f"build/app{number}/app{number}")
        if good:
            assert (outcome.code, outcome.err.count("no problems found")) == (0, 1), outcome.err
            continue
        assert outcome.code == 66
        assert (
            "gpubuild: check: access to host memory in kernel @f of module @k\n"
            f"  at k{number}.mlir:17:7" in outcome.err
        )
        assert ", written by work-item (0, 0, 0) of workgroup (0, 0, 0)\n  a GPU cannot access" in outcome.err
        assert "64 times in this launch" in outcome.err
        assert "problems found: host-memory: 1 (64 times) in 1 launch" in outcome.err


@pytest.mark.parametrize(
    ("flags", "name", "chip", "machine", "faster"),
    [
        ("fpu abm avx avx2 bmi1 bmi2 f16c fma movbe", "cpu", "x86-64-v2", "x86_64", "x86-64-v3"),
        ("fpu abm avx avx2 bmi1 bmi2 f16c movbe", "cpu", "x86-64-v2", "x86_64", ""),
        ("fpu abm avx avx2 bmi1 bmi2 f16c fma movbe", "cpu", "x86-64-v3", "x86_64", ""),
        ("fpu abm avx avx2 bmi1 bmi2 f16c fma movbe", "v2", "x86-64-v2", "x86_64", ""),
        ("fpu abm avx avx2 bmi1 bmi2 f16c fma movbe", "cpu", "generic", "aarch64", ""),
        ("", "cpu", "x86-64-v2", "x86_64", ""),
    ],
)
def test_faster_chips(tmp_path, monkeypatch, flags, name, chip, machine, faster) -> None:
    file = tmp_path / "cpuinfo"
    monkeypatch.setattr(cpu, "_CPU_FACTS", file)
    assert vendor("cpu").faster_chip(name, chip, machine) == ""
    file.write_text(f"processor\t: 0\nmodel name\t: a CPU\nflags\t\t: {flags}\n")
    assert vendor("cpu").faster_chip(name, chip, machine) == faster
