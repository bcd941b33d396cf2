"""Survey of the vendors' dialects: one instance of every operation of nvvm and rocdl, one module per chip."""

from __future__ import annotations

import importlib.util
import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

_TABLE = Path(__file__).with_name("vendor_survey.txt")
_LINE = re.compile(r"(?P<op>\S+) \((?P<operands>.*?)\) -> \((?P<results>.*?)\)(?: \{(?P<attributes>.*)\})?")
_FAMILIES: Mapping[str, tuple[str, ...]] = {
    "nvvm": (
        "read.ptx.sreg", "convert", "cp.async", "tcgen05", "mbarrier", "fence", "mma", "wmma", "wgmma",
        "cluster",
    ),
    "rocdl": (
        "mfma", "smfmac", "wmma", "cvt", "raw", "ds", "global", "cluster", "tensor", "s", "workgroup",
        "workitem", "grid", "permlane",
    ),
}  # fmt: skip
REFUSED: Mapping[str, str] = {"rocdl.exp": "LLVM has no such function of one argument"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One operation in its generic form; ``operands`` are types, or ``=n``, a constant."""

    op: str
    chip: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    attributes: str

    def text(self) -> str:
        """A kernel that has the operation and stores what it gives."""
        types = ["i32" if t.startswith("=") else t for t in self.operands]
        values = [f"%a{n}" for n in range(len(types))]
        results = [f"%r{n}" for n in range(len(self.results))]
        lines = [
            f"{value} = llvm.mlir.constant({t[1:]} : i32) : i32"
            for value, t in zip(values, self.operands, strict=True)
            if t.startswith("=")
        ]
        lines.append(
            (f"{', '.join(results)} = " if results else "")
            + f'"{self.op}"({", ".join(values)})'
            + (f" <{{{self.attributes}}}>" if self.attributes else "")
            + f" : ({', '.join(types)}) -> ({', '.join(self.results)})"
        )
        lines += [
            f"llvm.store volatile {value}, %out : {t}, !llvm.ptr"
            for value, t in zip(results, self.results, strict=True)
        ]
        given = [
            f"{value}: {t}" for value, t in zip(values, self.operands, strict=True) if not t.startswith("=")
        ]
        name = re.sub(r"\W", "_", self.op)
        body = "\n    ".join((*lines, "gpu.return"))
        return f"  gpu.func @{name}({', '.join((*given, '%out: !llvm.ptr'))}) kernel {{\n    {body}\n  }}\n"


def _read() -> Iterable[Instance]:
    chip = ""
    for line in _TABLE.read_text().splitlines():
        if line.startswith("["):
            chip = line.strip("[]")
        elif match := _LINE.fullmatch(line):
            for op in _names(match["op"]):
                yield Instance(
                    op=op,
                    chip=chip,
                    operands=tuple(filter(None, match["operands"].split("; "))),
                    results=tuple(filter(None, match["results"].split("; "))),
                    attributes=match["attributes"] or "",
                )


def _names(pattern: str) -> list[str]:
    """The operations of ``a.{b,c}.d``."""
    parts = (part.split(",") for part in re.split(r"[{}]", pattern))
    return ["".join(choice) for choice in itertools.product(*parts)]


INSTANCES = tuple(_read())
CHIPS = tuple(dict.fromkeys(i.chip for i in INSTANCES))


def module_text(chip: str) -> str:
    """All that is to compile for ``chip``."""
    return "gpu.module @k {\n" + "".join(i.text() for i in INSTANCES if i.chip == chip) + "}\n"


def operations(dialect: str) -> list[str]:
    """The names of the dialect's operations, of the bindings' generated module, which is not imported."""
    package = importlib.util.find_spec("mlir.dialects")
    assert package is not None
    assert package.submodule_search_locations
    text = Path(package.submodule_search_locations[0], f"_{dialect}_ops_gen.py").read_text()
    return re.findall(r'OPERATION_NAME = "(.*)"', text)


def render() -> str:
    """The section of the document: a row for each family of operations."""
    parts = [
        "## nvvm, rocdl: every operation\n",
        "One instance of each operation of LLVM 22's dialects, compiled and assembled for the chips named.\n",
        "| operations | compiled, of all | chips | refused |",
        "|---|---|---|---|",
    ]
    for dialect, families in _FAMILIES.items():
        rows: dict[str, list[str]] = {f"{dialect}.{family}.*": [] for family in sorted(families)}
        others = f"{dialect}, others"
        rows[others] = []
        for name in operations(dialect):
            head = [f for f in families if re.match(rf"{dialect}\.{re.escape(f)}\d*(\W|$)", name)]
            rows[f"{dialect}.{max(head, key=len)}.*" if head else others].append(name)
        for row, names in rows.items():
            done = [i for i in INSTANCES if i.op in names]
            chips = ", ".join(sorted({i.chip for i in done}))
            refused = "; ".join(f"`{n}`: {REFUSED[n]}" for n in names if n in REFUSED)
            parts.append(f"| {row} | {len(done)} of {len(names)} | {chips} | {refused} |")
    return "\n".join(parts) + "\n"
