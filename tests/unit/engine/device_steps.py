"""Outline and compile steps with real tools, each in a child: LLVM ends the process on some input."""

import functools
import json
import os
import pickle
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unit.engine.steps import Ran, run_step

from gpubuild.engine import dispatch
from gpubuild.model.step import CompileParams, OutlineParams, StepKind
from gpubuild.settings import Settings
from gpubuild.targets.amd import AMD
from gpubuild.targets.registry import of_name, vendor
from gpubuild.targets.target import Target
from gpubuild.toolchain.find import Toolchain

OUTPUTS = ("llvm", "asm", "object", "info")


class ChildCrashedError(Exception):
    pass


@functools.cache
def _preload() -> None:
    """Load what steps need once, as a process does that forks workers: else each child loads it."""
    dispatch.preload("gpubuild.engine.source.outline")
    for backend in ("amd", "cpu", "nvidia", "spirv"):
        dispatch.preload(f"gpubuild.engine.backends.{backend}.compile")


def in_child(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of a call made in a forked child; exceptions come through, a crash is one too."""
    _preload()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            try:
                answer = (True, function(*args, **kwargs))
            except BaseException as error:
                answer = (False, error)
            with os.fdopen(writer, "wb") as stream:
                pickle.dump(answer, stream)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        data = stream.read()
    status = os.waitpid(child, 0)[1]
    if status or not data:
        raise ChildCrashedError(f"child ended with status {status}")
    good, value = pickle.loads(data)
    if not good:
        raise value
    return value


@functools.cache
def tools(*, without: tuple[str, ...] = ()) -> dict[str, tuple[str, ...]]:
    chain = Toolchain(Settings())
    return {
        name: chain.require(name).command for name in ("ptxas", "libdevice", "ld.lld") if name not in without
    }


@dataclass(frozen=True)
class Compiled:
    ran: Ran

    @property
    def asm(self) -> str:
        return self.ran.text("asm")

    @property
    def llvm(self) -> str:
        return self.ran.text("llvm")

    @property
    def object(self) -> bytes:
        return self.ran.outputs["object"]

    @property
    def kernels(self) -> list[dict[str, Any]]:
        return json.loads(self.ran.text("info"))["kernels"]


def compile_params(chip: str, **options: Any) -> CompileParams:
    found = of_name(chip) or AMD  # unknown chips are AMD's
    kind, triple = found.kind, found.default_triple(chip, "")
    relocatable = options.pop("relocatable", False)
    name = options.pop("target", chip)
    fast = options.get("fast_math", False)
    options["flags"] = vendor(kind).with_fast_flags(options.get("flags", ()), fast_math=fast)
    target = Target(name=name, kind=kind, triple=triple, chip=chip, **options)
    return CompileParams(module="k", target=target, relocatable=relocatable)


def compile_module(
    text: str,
    chip: str,
    *,
    located: str = "",
    libraries: tuple[bytes | str, ...] = (),
    without: tuple[str, ...] = (),
    extra: dict[str, tuple[str, ...]] | None = None,
    **options: Any,
) -> Compiled:
    """One compile step in a child, in a folder of its own."""
    inputs: dict[str, bytes | str | Path] = {"module": text}
    if located:
        inputs["located"] = located
    inputs.update({f"lib.{number}": data for number, data in enumerate(libraries)})
    params = compile_params(chip, **options)
    given = {**tools(without=without), **(extra or {})}
    with tempfile.TemporaryDirectory() as folder:
        return Compiled(in_child(run_step, Path(folder), StepKind.COMPILE, params, inputs, OUTPUTS, given))


def outline_source(
    text: str, *, name: str = "k.mlir", passes: str = "", names: bool = False, constants: tuple[str, ...] = ()
) -> dict[str, str]:
    """All outputs of an outline step, by name."""
    with tempfile.TemporaryDirectory() as folder:
        params = OutlineParams(passes=passes, constants=constants, source_name=name, names=names)
        return in_child(_outline, Path(folder), params, text)


def _outline(folder: Path, params: OutlineParams, text: str) -> dict[str, str]:
    ran = run_step(folder, StepKind.OUTLINE, params, {"source": text}, ())
    out = folder / "job" / "out"
    return {blob.name: (out / blob.name).read_text() for blob in ran.result.result.blobs}


def kernel(body: str, *, arguments: str = "", extra: str = "") -> str:
    """A module ``@k`` with a kernel ``@f`` of the usual arguments and ``body``."""
    usual = "%a: memref<?xf32>, %m: memref<16x16xf32>, %i: index, %x: f32, %n: i32"
    return (
        f"gpu.module @k {{\n{extra}\ngpu.func @f({usual}{arguments and ', ' + arguments}) kernel {{\n"
        f"{body}\ngpu.return\n}}\n}}\n"
    )
