"""Facts of a made-up kind of target: a machine that runs WebAssembly modules, one work-item at a time."""

from __future__ import annotations

from collections.abc import Iterator

from gpubuild.targets.vendor import ImageKind, ImageKinds, Occupancy, OffloadKind, Vendor, names


class Wasm(Vendor):
    kind = "wasm"
    maker = "WebAssembly"
    noun = "a WebAssembly machine"
    example = "wasm-mvp"
    triple = "wasm32-unknown-unknown"
    architectures = ("wasm32", "wasm64")
    attribute_chip = "generic"
    asm_suffix, object_suffix, relocatable_suffix = "wat", "wasm", "o"
    image_kinds = relocatable_kinds = ImageKinds(ImageKind.OBJECT, OffloadKind.NONE)
    lists_features = True
    tools = ("llvmlite",)
    optional_symbols = ("__wasm_",)
    disassembler_fix = "install LLVM"
    backend = "made_up_vendor.engine"
    image_reader = "made_up_vendor.image_reader"

    def implied_by(self, name: str) -> bool:
        return name.startswith("wasm-")

    def chips(self, triple: str) -> frozenset[str]:
        return names("wasm-mvp wasm-generic wasm-bleeding-edge")

    def features(self, triple: str) -> frozenset[str]:
        return names("bulk-memory simd128 sign-ext relaxed-simd")

    def occupancy(self, chip: str, registers: int, shared_bytes: int, workgroup: int = 0) -> Occupancy | None:
        return Occupancy(percent=100, limit="")

    def disassemblers(self, chip: str) -> Iterator[tuple[str, ...]]:
        yield "llvm-objdump", "-d"


WASM = Wasm()
