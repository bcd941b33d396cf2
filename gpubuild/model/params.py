"""Params: what a step is told besides its input files. One frozen record per step kind.

All fields that take part in comparison are part of the action key (model.action). Fields with
``compare=False`` are for messages only and must not influence a byte of output.
"""

from __future__ import annotations

from gpubuild.frozen import field, frozen
from gpubuild.model.project import Offload
from gpubuild.model.sanitize import Sanitize
from gpubuild.model.target import Kind


@frozen
class OutlineParams:
    """Split one ``.mlir`` source into a host part and gpu.modules.

    Input ``source``. Dynamic outputs: ``index.json``, ``host.mlir``, ``host_located.mlir`` and per
    module number N ``module.N.mlir`` (canonical text) and ``located.N.mlir`` (the same with locations).
    Steps with debug information read the located texts instead of the canonical ones.
    """

    passes: str = ""  # builtin.module pipeline run first, e.g. linalg to gpu
    source_name: str = ""  # relative to the project; part of the located texts, hence of the key


@frozen
class CompileParams:
    """Compile one gpu.module for one target.

    Inputs ``module`` (canonical text), ``located`` (not in the key; used for diagnostics only),
    ``lib.N`` (device libraries, .bc or .ll). Outputs ``llvm`` (text), ``asm`` (PTX or assembly),
    ``object`` (cubin, hsaco, shared object), ``info`` (JSON, see engine.info), and with ``relocatable``
    also ``device``: what clang-linker-wrapper links (engine.relocatable).
    """

    module: str
    kind: Kind
    triple: str
    chip: str
    features: str = ""
    opt_level: int = 3
    fast_math: bool = False
    debug: bool = False
    passes: str = ""
    sanitize: tuple[Sanitize, ...] = ()  # needs the located text: reports name places in the source
    relocatable: bool = False
    target: str = field(default="", compare=False)  # the target's name, for messages


@frozen
class ObjectParams:
    """One ``#gpu.object`` of a bundle: inputs ``object.N``, ``asm.N`` and ``info.N`` belong to it."""

    target: str
    kind: Kind
    triple: str
    chip: str
    features: str = ""
    opt_level: int = 3
    fast_math: bool = False
    sanitize: tuple[Sanitize, ...] = ()


@frozen
class BundleParams:
    """Put a module's objects into one ``gpu.binary``. Output ``binary`` (``.binary.mlir`` text).

    ``handler`` is the attribute text of the offloading handler, such as ``#gpu.select_object<0>``.
    """

    module: str
    handler: str
    objects: tuple[ObjectParams, ...]


@frozen
class HostParams:
    """Lower the host part of one source to an object file.

    Inputs ``host`` (text with a placeholder gpu.binary per module), ``binary.N`` in the order of
    ``modules`` (images for ``dispatch`` and their strings are read from the binaries), for ``clang``
    ``device.N.M`` (relocatable code of object M of binary N), and optionally ``located`` (the same
    text with locations, not in the key; for diagnostics only).
    Outputs ``mlir`` (host with real gpu.binary ops), ``llvm`` (text), ``object`` (ELF).
    """

    modules: tuple[str, ...]
    offload: Offload
    passes: str = ""
    opt_level: int = 3
    debug: bool = False
    triple: str = "x86_64-unknown-linux-gnu"


@frozen
class PreprocessParams:
    """Preprocess a C or C++ source. Outputs ``text`` and ``deps`` (JSON: digests of the files read, by name).

    What it reads is known only after it ran, so a stored result lists the headers, and serves only
    where they are the same (``gpubuild.headers``). ``include`` are folders, relative to the project's
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
    """Compile ``libgpubuild_rt``: inputs are its C files and headers by name, output ``archive``."""

    opt_level: int = 2


@frozen
class LinkParams:
    """Link inputs ``object.N``, ``archive.N`` and ``runtime`` into output ``executable``.

    With ``shared`` the output is a library that has all of the archives in it. With
    ``wrapper_triple``, the triple of host code, clang-linker-wrapper links (``offload: clang``).
    ``present`` are the files that libraries could be: one that comes or goes can change what is linked.
    """

    libraries: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    cxx: bool = False  # a C++ source takes part, so its standard library is needed
    debug: bool = False  # keep debug information
    shared: bool = False
    wrapper_triple: str = ""
    present: tuple[str, ...] = ()


Params = (
    OutlineParams
    | CompileParams
    | BundleParams
    | HostParams
    | PreprocessParams
    | CcParams
    | LlvmParams
    | RuntimeParams
    | LinkParams
)
