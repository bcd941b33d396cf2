"""Step: one node of the plan: parameters, inputs, outputs, tools; and the key that names its result.

All fields of the parameters that take part in comparison are part of the key. Fields with
``compare=False`` are for messages only and must not influence a byte of output.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from pathlib import Path

from gpubuild.model.digest import Digest, digest_bytes, encode, is_digest
from gpubuild.model.project import Offload, Product
from gpubuild.support.frozen import field, frozen
from gpubuild.targets.target import Target


@frozen
class OutlineParams:
    """Split one ``.mlir`` source into a host part and gpu.modules.

    Input ``source``. Dynamic outputs: ``index.json``, ``host.mlir``, ``host_located.mlir`` and per
    module number N ``module.N.mlir`` (canonical text) and ``located.N.mlir`` (the same with locations);
    ``resource.DIGEST.bin`` has the data of large `dense_resource` attributes in them.
    Steps with debug information read the located texts instead of the canonical ones. With ``names``
    there is ``named.N.mlir``, too: the located text with the names of values.
    """

    passes: str = ""  # builtin.module pipeline run first, e.g. linalg to gpu
    constants: tuple[str, ...] = ()  # NAME=VALUE, for arith.constant with the name
    source_name: str = ""  # relative to the project; part of the located texts, hence of the key
    names: bool = False


@frozen
class GenerateParams:
    """Run a command of the user's that makes sources.

    Inputs ``tool``, the program, and ``input.N``: copies in a private folder, under the names in ``inputs``.
    Outputs have the names in ``outputs``, the files in that folder.
    """

    command: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@frozen
class CompileParams:
    """Compile one gpu.module for one target.

    Inputs ``module`` (canonical text), ``located`` (not in the key; used for diagnostics only),
    ``lib.N`` (device libraries, .bc or .ll), ``resource.N`` (data of `dense_resource`). Instead of
    ``module`` there may be ``bitcode`` and ``kernels``, the text of its kernel table or nothing.
    Outputs ``llvm`` (text), with ``assembly`` ``asm`` (PTX or assembly),
    ``object`` (cubin, hsaco, shared object), ``info`` (JSON, backends.kernel_info), and with ``relocatable``
    also ``device``: what clang-linker-wrapper links (engine.backends.gpu_compile).
    """

    module: str
    target: Target
    relocatable: bool = False
    assembly: bool = True


@frozen
class BundleParams:
    """Put a module's objects into one ``gpu.binary``. Output ``binary`` (``.binary.mlir`` text).

    ``handler`` is the attribute text of the offloading handler, such as ``#gpu.select_object<0>``.
    Inputs ``object.N``, ``asm.N``, ``llvm.N`` and ``info.N`` are of target N, those that its format
    takes. The names of targets are written into the bundle, so here they are a part of the key.
    With ``host_triple``, output ``images`` is an ELF object for it, with all images or, if ``chosen``, those
    of the object that the handler selects.
    """

    module: str
    handler: str
    targets: tuple[Target, ...]
    names: tuple[str, ...]
    formats: tuple[str, ...]
    host_triple: str = ""
    chosen: bool = False


@frozen
class HostParams:
    """Lower the host part of one source to an object file.

    Inputs ``host`` (text with a placeholder gpu.binary per module), ``resource.N``, and optionally
    ``located`` (the same text with locations, not in the key; for diagnostics only). With ``dispatch`` the
    object refers to the images, which are linked. Otherwise also ``binary.N`` in the order of ``modules``,
    and for ``clang`` ``device.N.M`` (relocatable code of object M of binary N); of the modules ``chosen``
    the object that their handler selects is kept.
    Outputs ``mlir`` (host with the gpu.binary ops that it contains), ``llvm`` (text), ``object`` (ELF).
    """

    modules: tuple[str, ...]
    offload: Offload
    chosen: tuple[str, ...] = ()
    passes: str = ""
    opt_level: int = 3
    debug: bool = False
    triple: str = "x86_64-unknown-linux-gnu"


@frozen
class PreprocessParams:
    """Preprocess a C or C++ source. Outputs ``text`` and ``deps`` (JSON: digests of the files read, by name).

    What it reads is known only after it ran, so a stored result lists the headers, and serves only
    where they are the same (``build.include_scan``). ``include`` are folders, relative to the project's
    or absolute.
    """

    language: str  # c | c++
    suffix: str  # of the preprocessed file: .i | .ii
    opt_level: int = 2  # for `__OPTIMIZE__` and what depends on it
    debug: bool = False
    std: str = ""
    include: tuple[str, ...] = ()
    define: tuple[str, ...] = ()  # NAME or NAME=value
    flags: tuple[str, ...] = ()
    source_name: str = ""  # relative to the project: where `#include "…"` starts to look


@frozen
class CcParams:
    """Compile preprocessed text (input ``text``) to an object file (output ``object``).

    ``source`` is for messages. Where flags are about warnings it is in the key, as ``deps`` is: comments
    and macros, which the text lacks, have a part in what a compiler warns of.
    """

    language: str
    opt_level: int = 2
    debug: bool = False
    std: str = ""
    flags: tuple[str, ...] = ()
    source_name: str = field(default="", compare=False)
    include: tuple[str, ...] = field(default=(), compare=False)
    define: tuple[str, ...] = field(default=(), compare=False)


@frozen
class LlvmParams:
    """Compile an LLVM IR source (input ``source``, .ll or .bc) for the host (output ``object``)."""

    triple: str
    opt_level: int = 3
    bitcode: bool = False
    source_name: str = field(default="", compare=False)


@frozen
class RuntimeParams:
    """Compile ``libgpubuild_rt``: inputs are its C files and headers by name, output ``archive``.

    An input ``archive`` has been compiled already.
    """

    opt_level: int = 2


@frozen
class LinkParams:
    """Link inputs ``object.N``, ``archive.N`` and ``runtime`` into output ``executable``.

    With ``wrapper_triple``, the triple of host code, clang-linker-wrapper links (``offload: clang``).
    ``present`` are the files that libraries could be: one that comes or goes can change what is linked.
    """

    libraries: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    cxx: bool = False  # a C++ source takes part, so its standard library is needed
    debug: bool = False  # keep debug information
    wrapper_triple: str = ""
    present: tuple[str, ...] = ()


@frozen
class LibraryParams:
    """Link like ``link``, but into ``file_name``, a library or object: output ``library``.

    Inputs are those of :class:`LinkParams`, and ``host.N``, the objects of MLIR sources.
    """

    product: Product
    file_name: str
    link: LinkParams


@frozen
class InterfaceParams:
    """Write what callers of a library use, from inputs ``interface.N``, the records of its functions.

    Outputs ``header`` (C and C++), ``object`` (ELF), the entry points, and ``module`` with ``python``.
    """

    program: str
    triple: str
    python: bool  # whether a Python module can load the product
    kernels: bool  # whether callers can launch them: their images are in the program's container


Params = (
    GenerateParams
    | OutlineParams
    | CompileParams
    | BundleParams
    | HostParams
    | PreprocessParams
    | CcParams
    | LlvmParams
    | RuntimeParams
    | LinkParams
    | LibraryParams
    | InterfaceParams
)


_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def pipeline_of(params: Params) -> tuple[str, str]:
    """Return the user's pass pipeline that a step runs, and the stage in which it does; empty without one."""
    match params:
        case OutlineParams(passes=passes):
            stage = "passes"
        case CompileParams():
            passes, stage = params.target.passes, "lower"
        case HostParams(passes=passes):
            stage = "lower host"
        case _:
            return "", ""
    return (passes, stage) if passes else ("", "")


class StepKind(StrEnum):
    """What a step does; the engine has one entry point per kind (engine.dispatch)."""

    GENERATE = "generate"
    OUTLINE = "outline"
    COMPILE = "compile"
    BUNDLE = "bundle"
    HOST = "host"
    PREPROCESS = "preprocess"
    CC = "cc"
    LLVM = "llvm"
    RUNTIME = "runtime"
    LINK = "link"
    INTERFACE = "interface"


@frozen
class Input:
    """A file a step reads, under the role ``name``. ``producer`` is the step that writes it.

    An input with ``in_key=False`` may only improve messages, never change a byte of output.
    ``origin`` is the user's file that something to be linked was made of; only messages name it.
    """

    name: str
    path: Path
    producer: str = ""
    in_key: bool = True
    origin: Path | None = None


@frozen
class Output:
    """A file a step writes, under the role ``name``, at its place in the build folder."""

    name: str
    path: Path
    executable: bool = False
    install: str = ""  # the folder below a prefix that `gpubuild install` copies it to: bin, lib or include


@frozen
class Step:
    """One cacheable unit of work.

    ``tools`` must be present; ``optional_tools`` count as "absent" in the key when they are not
    (libdevice, say). A step whose outputs are known only after it ran has ``dynamic_dir`` instead of
    ``outputs``; its output names are plain file names in that folder.
    ``users`` are the programs that a step of a source is for, which has no ``program`` of its own.
    """

    id: str  # unique in a plan, stable across builds, e.g. "saxpy/compile/saxpy_kernels/sm_60"
    kind: StepKind
    params: Params
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...] = ()
    dynamic_dir: Path | None = None
    tools: tuple[str, ...] = ()
    optional_tools: tuple[str, ...] = ()
    program: str = ""
    module: str = ""
    target: str = ""
    users: tuple[str, ...] = ()

    @property
    def link(self) -> LinkParams | None:
        """How the step links; ``None`` for other kinds of steps."""
        params = self.params
        return (
            params.link
            if isinstance(params, LibraryParams)
            else params
            if isinstance(params, LinkParams)
            else None
        )

    def output_path(self, name: str) -> Path:
        """Return the path of output ``name``. Raises ``KeyError`` for a name the step does not have."""
        for output in self.outputs:
            if output.name == name:
                return output.path
        if self.dynamic_dir is not None and is_plain_name(name):
            return _below(self.dynamic_dir, name)
        raise KeyError(f"step {self.id} has no output {name!r}")


@cache
def _below(folder: Path, name: str) -> Path:
    """Return a path in a folder; a build asks for each several times, which is slow in ``pathlib``."""
    return folder / name


@frozen
class Blob:
    """One output as stored: its role, content digest and size in bytes."""

    name: str
    digest: Digest
    size_bytes: int
    executable: bool = False


@frozen
class ActionResult:
    """What an action key maps to: every output, and files found to be inputs while running.

    ``discovered`` are (path, digest) pairs: absolute, or in a store relative to the project.
    """

    blobs: tuple[Blob, ...]
    discovered: tuple[tuple[str, Digest], ...] = ()
    warnings: tuple[str, ...] = ()
    seconds: float = field(default=0.0, compare=False)  # what the step cost when it ran


def is_plain_name(name: str) -> bool:
    """Whether ``name`` is safe as a file name inside a folder of ours."""
    return bool(name) and name[0] != "." and _PLAIN.issuperset(name)


KEY_VERSION = "gpubuild.action/3"  # Raise when a field is added or changes meaning.


@frozen
class Action:
    """Everything that can change the bytes of a step's outputs.

    ``inputs`` are (role, content digest) pairs in the order of the step; ``tools`` are (name,
    fingerprint) pairs, with the word ``absent`` for an optional tool that is not there.
    Raises ``ValueError`` when a digest is not spelled like one.
    """

    kind: StepKind
    params: Params
    inputs: tuple[tuple[str, Digest], ...]
    tools: tuple[tuple[str, str], ...]
    version: str = KEY_VERSION

    def __post_init__(self) -> None:
        for role, digest in self.inputs:
            if not is_digest(digest):
                raise ValueError(f"input {role}: expected 64 hexadecimal digits, got {digest!r}")


def action_key(action: Action) -> Digest:
    """Return the key of the action's result in caches: SHA-256 of its injective encoding."""
    return digest_bytes(encode(action))
