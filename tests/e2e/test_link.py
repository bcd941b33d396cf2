"""Linking with the system's compiler and with zig: what runs, what is reproducible, what is said."""

import subprocess
from pathlib import Path

import pytest
from e2e.command import execute
from unit.engine.host.test_offload_binary import CUBIN, HSACO, llvm_tool
from unit.engine.steps import COMPILERS, Ran, Tools, failing_step, run_step
from variants import few

from gpubuild.model.offload_binary import pack
from gpubuild.model.step import CcParams, LinkParams, LlvmParams, RuntimeParams, StepKind

MAIN = """#include <stdio.h>
#include <math.h>
int helper(int);
int main(int n, char **v) {
    (void)v;
    printf("%d %.3f\\n", helper(n), exp(n));
    return 0;
}
"""
HELPER = "int rt_value(void);\nint helper(int n) { return n + rt_value(); }\n"
RUNTIME = {
    "rt.c": "int helper(int);\nint rt_value(void) { return 41; }\nint rt_back(void) { return helper(1); }\n"
}

PLAIN = LinkParams()


@pytest.fixture(params=["system", "zig"])
def tools(request: pytest.FixtureRequest) -> Tools:
    return COMPILERS[request.param]()


def compiled(work: Path, source: str, tools: Tools, language: str = "c") -> bytes:
    text = subprocess.run(
        [*tools["cc"], "-E", "-P", "-x", language, "-"],
        input=source.encode(),
        capture_output=True,
        check=True,
    ).stdout
    ran = run_step(work, StepKind.CC, CcParams(language=language), {"text": text}, ("object",), tools)
    return ran.outputs["object"]


def parts(tmp_path: Path, tools: Tools, main: str = MAIN) -> dict[str, bytes | str | Path]:
    archive = run_step(tmp_path / "rt", StepKind.RUNTIME, RuntimeParams(), RUNTIME, ("archive",), tools)
    helper = run_step(
        tmp_path / "helper",
        StepKind.RUNTIME,
        RuntimeParams(),
        {"helper.c": HELPER},
        ("archive",),
        tools,
    )
    return {
        "object.0": compiled(tmp_path / "main", main, tools),
        "archive.1": helper.outputs["archive"],
        "runtime": archive.outputs["archive"],
    }


def linked(
    work: Path, inputs: dict[str, bytes | str | Path], tools: Tools, params: LinkParams = PLAIN
) -> Ran:
    return run_step(work, StepKind.LINK, params, inputs, ("executable",), tools)


def run(work: Path, data: bytes, *arguments: str) -> str:
    program = work / "program"
    program.write_bytes(data)
    program.chmod(0o755)
    return execute(program, *arguments).out


def test_archives_that_need_each_other_and_the_system_libraries(tmp_path: Path, tools: Tools) -> None:
    ran = linked(tmp_path / "l", parts(tmp_path, tools), tools)
    assert run(tmp_path, ran.outputs["executable"], "x") == "43 7.389\n"
    assert ran.result.result.warnings == ()


def test_executables_are_the_same_wherever_they_are_linked(tmp_path: Path, tools: Tools) -> None:
    inputs = parts(tmp_path, tools)
    one = linked(tmp_path / "l", inputs, tools).outputs["executable"]
    two = linked(tmp_path / "another/longer/folder", inputs, tools).outputs["executable"]
    assert one == two
    assert str(tmp_path).encode() not in one
    assert b"site-packages" not in one


def test_a_program_without_main(tmp_path: Path, tools: Tools) -> None:
    inputs = parts(tmp_path, tools, main="int not_main(void) { return 0; }\n")
    error = failing_step(tmp_path / "l", StepKind.LINK, LinkParams(), inputs, ("executable",), tools)
    assert error.message == "cannot link: nothing defines main"
    assert "int main(void)" in error.hint


IMAGES = pack([CUBIN, HSACO])
EMBEDDED = """%entry = type { i32, ptr, ptr }
@images = internal constant [SIZE x i8] c"BYTES", section ".llvm.offloading", align 8
@seen = internal global ptr null
@llvm.global_ctors = appending global [1 x %entry] [%entry { i32 123, ptr @load, ptr null }]
define internal void @load() {
  store ptr @images, ptr @seen
  ret void
}
define i32 @helper(i32 %n) {
  %p = load ptr, ptr @seen
  %set = icmp ne ptr %p, null
  %r = select i1 %set, i32 %n, i32 -1
  ret i32 %r
}
""".replace("SIZE", str(len(IMAGES))).replace("BYTES", "".join(f"\\{byte:02X}" for byte in IMAGES))


@pytest.mark.parametrize("flags", few([["-Wl,--gc-sections", "-s"], [], ["-Wl,--gc-sections"]]))
def test_images_and_constructors_survive_the_linker(tmp_path: Path, tools: Tools, flags: list[str]) -> None:
    host = run_step(
        tmp_path / "ll",
        StepKind.LLVM,
        LlvmParams(triple="x86_64-unknown-linux-gnu"),
        {"source": EMBEDDED},
        ("object",),
    )
    inputs = parts(tmp_path, tools)
    del inputs["archive.1"]
    inputs["object.7"] = host.outputs["object"]
    data = linked(tmp_path / "l", inputs, tools, LinkParams(flags=flags)).outputs["executable"]
    assert run(tmp_path, data) == "1 2.718\n"
    listing = execute(llvm_tool("llvm-objdump"), "--offloading", tmp_path / "program").out
    assert listing.count("OFFLOADING IMAGE") == 2
    assert "gfx90a:sramecc+:xnack-" in listing


def test_what_a_linker_warns_about_is_kept(tmp_path: Path) -> None:
    tools = COMPILERS["system"]()
    inputs = parts(tmp_path, tools, main=MAIN.replace("helper(n)", "(tmpnam(0), helper(n))"))
    (warning,) = linked(tmp_path / "l", inputs, tools).result.result.warnings
    assert "tmpnam" in warning
