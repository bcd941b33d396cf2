"""Random projects, and what people do to them: edits, renames, links, other options, other tools."""

from __future__ import annotations

import copy
import json
import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_MODULES = ("add", "mul", "sub")
_LINES = ("one", "two", "impossible")


@dataclass(frozen=True)
class Link:
    """A symbolic link, as the content of a file."""

    to: str


@dataclass
class Model:
    """What a project's folder is to hold. ``root`` is its place, for what must be named absolutely."""

    root: Path
    files: dict[str, str | Link] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    tools: dict[str, str] = field(default_factory=dict)

    @classmethod
    def first(cls, root: Path) -> Model:
        model = cls(
            root,
            files={
                "a.mlir": "add one\nmul two\n",
                "b.mlir": "add one\n",
                "main.c": '#include "x.h"\n#include <v.h>\nint main;\n',
                "deep/more.c": '#include "../x.h"\n#include "in/y.h"\nint more; N\n',
                "same.c": "int same;\n",
                "x.h": "X 1\n",
                "deep/in/y.h": '#include "z.h"\nY 1\n',
                "deep/in/z.h": "Z 1\n",
                "inc/v.h": "V 1\n",
                "data.bin": "data\n",
                "lib/libfoo.a": "foo 1\n",
                "o.o": "object 1\n",
                "dev.bc": "device 1\n",
            },
            config={
                "targets": {"sm_60": {}, "cpu": {}},
                "defaults": {},
                "host": {"include": ["inc"]},
                "programs": {
                    "p": {"sources": ["a.mlir", "main.c", "deep/more.c"]},
                    "q": {"sources": ["b.mlir", "same.c"]},
                },
            },
            tools=dict.fromkeys(("gpubuild", "mlir", "ptxas", "cc"), "1"),
        )
        model.write_config()
        return model

    def write_config(self) -> None:
        self.files["targets.yaml"] = json.dumps({"version": 1, **self.config})


def edit(model: Model, choose: random.Random, history: list[Model]) -> str:
    """Change ``model`` as a person would; what was done."""
    name, do = choose.choice(_EDITS)
    if name == "revert":
        if history:
            old = copy.deepcopy(choose.choice(history))
            model.files, model.config, model.tools = old.files, old.config, old.tools
        return name
    do(model, choose)
    model.write_config()
    return name


def _program(model: Model, choose: random.Random) -> dict[str, Any]:
    programs: dict[str, Any] = model.config["programs"]
    return choose.choice(list(programs.values()))  # type: ignore[no-any-return]


def _text(model: Model, name: str) -> str:
    found = model.files.get(name, "")
    return found if isinstance(found, str) else ""


def _kernels(model: Model, choose: random.Random) -> None:
    name = choose.choice(("a.mlir", "b.mlir"))
    modules = choose.sample(_MODULES, choose.randint(1, 3))
    text = "".join(f"{module} {choose.choice(_LINES[: 2 + (choose.random() < 0.1)])}\n" for module in modules)
    model.files[name] = choose.choice(("", "# why\n")) + text


def _comment(model: Model, choose: random.Random) -> None:
    name = choose.choice(("a.mlir", "main.c", "x.h", "deep/in/z.h", "same.c"))
    mark = "#" if name.endswith("mlir") else "//"
    model.files[name] = f"{mark} {choose.randrange(3)}\n" + _text(model, name)[-200:]


def _header(model: Model, choose: random.Random) -> None:
    name = choose.choice(("x.h", "inc/v.h", "deep/in/y.h", "deep/in/z.h"))
    extra = choose.choice(("", '#include "z.h"\n', "odd\n", "N\n")) if name == "deep/in/y.h" else ""
    model.files[name] = f"{extra}value {choose.randrange(3)}\n"


def _shadow(model: Model, choose: random.Random) -> None:
    """A header that stands before another, or goes away again."""
    name = choose.choice(
        (
            "deep/x.h", "inc/x.h", "v.h", "deep/in/v.h", "more/v.h", "more/z.h", "in/y.h", "inc/in/y.h",
            "asked.h",
        )
    )  # fmt: skip
    if name in model.files:
        del model.files[name]
    else:
        model.files[name] = f"before {choose.randrange(2)}\n"


def _c_source(model: Model, choose: random.Random) -> None:
    lines = ['#include "x.h"', "#include <v.h>", '#if __has_include("asked.h")', "odd", "incbin data.bin"]
    lines += ["int a;", "N", "error", '#include "asked.h"']
    chosen = choose.sample(lines[: len(lines) - 2 * (choose.random() < 0.8)], choose.randint(1, 4))
    model.files[choose.choice(("main.c", "same.c", "deep/more.c"))] = "\n".join(chosen) + "\n"


def _small_file(model: Model, choose: random.Random) -> None:
    name = choose.choice(("data.bin", "lib/libfoo.a", "o.o", "dev.bc"))
    model.files[name] = f"{name} {choose.randrange(3)}\n"


def _library(model: Model, choose: random.Random) -> None:
    name = choose.choice(("lib/libfoo.so", "first/libfoo.a", "first/libfoo.so"))
    if model.files.pop(name, None) is None:
        model.files[name] = f"other {choose.randrange(2)}\n"


def _link_options(model: Model, choose: random.Random) -> None:
    lib, first = f"-L{model.root}/lib", f"-L{model.root}/first"
    flags = choose.choice(([], [lib], [first, lib], [lib, first]))
    _program(model, choose)["link"] = {"libraries": ["foo"] if flags else [], "flags": flags}


def _targets(model: Model, choose: random.Random) -> None:
    options = ({}, {"opt_level": 1}, {"fast_math": True}, {"debug": True})
    names = choose.sample(("sm_60", "sm_90", "gfx90a", "cpu"), choose.randint(1, 3))
    model.config["targets"] = {name: choose.choice(options) for name in names}


def _host(model: Model, choose: random.Random) -> None:
    host: dict[str, Any] = {
        "include": choose.choice((["inc"], ["more", "inc"], ["inc", "more"], ["inc", "."]))
    }
    if choose.random() < 0.5:
        host["define"] = {"N": choose.randrange(2)}
    if choose.random() < 0.4:
        host["flags"] = choose.choice((["-Wall"], ["-O1"], ["-Wall", "-O1"]))
    (model.config if choose.random() < 0.6 else _program(model, choose))["host"] = host
    if "more" in host["include"]:
        model.files.setdefault("more/other.h", "")


def _defaults(model: Model, choose: random.Random) -> None:
    model.config["defaults"] = choose.choice(({}, {"opt_level": 1}, {"debug": True}, {"opt_level": 3}))


def _sources(model: Model, choose: random.Random) -> None:
    sources = _program(model, choose)["sources"]
    name = choose.choice(("a.mlir", "b.mlir", "same.c", "main.c", "deep/more.c", "o.o", "copy.c"))
    if name in sources and len(sources) > 1:
        sources.remove(name)
    elif name not in sources:
        sources.insert(choose.randint(0, len(sources)), name)
        if name == "copy.c":
            model.files[name] = _text(model, "same.c")
    else:
        choose.shuffle(sources)


def _device_library(model: Model, choose: random.Random) -> None:
    program = _program(model, choose)
    program["device_libs"] = choose.choice(({}, {"cpu": ["dev.bc"]}, {"nvvm": ["dev.bc"], "cpu": ["dev.bc"]}))


def _programs(model: Model, choose: random.Random) -> None:
    """One comes, goes, or gets another name, perhaps in letters of another case only."""
    programs = model.config["programs"]
    old, new = choose.choice(list(programs)), choose.choice(("p", "q", "Q", "r"))
    if new not in programs:
        renamed = {new if name == old else name: program for name, program in programs.items()}
        model.config["programs"] = choose.choice((renamed, {**programs, new: copy.deepcopy(programs[old])}))
    elif len(programs) > 1 and choose.random() < 0.5:
        del programs[new]


def _swap(model: Model, choose: random.Random) -> None:
    one, other = choose.choice((("x.h", "inc/v.h"), ("main.c", "same.c"), ("a.mlir", "b.mlir")))
    if one in model.files and other in model.files:
        model.files[one], model.files[other] = model.files[other], model.files[one]


def _symbolic_link(model: Model, choose: random.Random) -> None:
    model.files |= {"real/x1.h": "X 11\n", "real/x2.h": "X 12\n"}
    model.files["x.h"] = Link(choose.choice(("real/x1.h", "real/x2.h")))


def _rename(model: Model, choose: random.Random) -> None:
    """A source gets another name, or its own in other letters, in the project file too."""
    old, new = choose.choice(
        (("same.c", "Same.c"), ("Same.c", "same.c"), ("b.mlir", "c.mlir"), ("c.mlir", "b.mlir"))
    )
    if old in model.files and new not in model.files:
        model.files[new] = model.files.pop(old)
        for program in model.config["programs"].values():
            program["sources"] = [new if name == old else name for name in program["sources"]]


def _delete(model: Model, choose: random.Random) -> None:
    if choose.random() < 0.3:
        model.files.pop(choose.choice(("x.h", "inc/v.h", "deep/in/z.h", "lib/libfoo.a", "data.bin")), None)
    first = Model.first(model.root).files
    for name in choose.sample(sorted(first), 5):
        model.files[name] = first[name]


def _tool(model: Model, choose: random.Random) -> None:
    model.tools[choose.choice(sorted(model.tools))] = str(choose.randrange(2))


_EDITS = (
    *((f.__name__.strip("_"), f) for f in (
        _kernels, _comment, _header, _shadow, _c_source, _small_file, _library, _link_options, _targets,
        _host, _defaults, _sources, _device_library, _programs, _swap, _symbolic_link, _rename, _delete,
        _delete, _tool,
    )),
    ("revert", _delete),
)  # fmt: skip


def write(model: Model, choose: random.Random, *, keep: set[str]) -> None:
    """Bring the folder to what ``model`` says, in one of the ways in which editors and tools write.

    Nothing in the folders named in ``keep`` is touched.
    """
    root = model.root
    for folder, inner, names in os.walk(root, topdown=True):
        if Path(folder) == root:
            inner[:] = [name for name in inner if name not in keep]
        for name in names:
            path = Path(folder) / name
            if str(path.relative_to(root)) not in model.files:
                path.unlink()
    for name, content in model.files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Link):
            path.unlink(missing_ok=True)
            path.symlink_to(os.path.relpath(root / content.to, path.parent))
            continue
        if path.is_symlink():
            path.unlink()
        before = path.stat() if path.exists() else None
        if before and path.read_text() == content:
            continue
        if choose.random() < 0.3:
            other = path.with_name(f"{path.name}~")
            other.write_text(content)
            other.replace(path)
        else:
            path.write_text(content)
        _set_time(path, before, choose)


def _set_time(path: Path, before: os.stat_result | None, choose: random.Random) -> None:
    way = choose.random()
    if before and way < 0.4:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    elif way < 0.5:
        os.utime(path, (1e9, 1e9))
    elif way < 0.6:
        os.utime(path, (4e9, 4e9))
