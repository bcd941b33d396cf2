"""The action key: injective, and sensitive to every field."""

from dataclasses import fields, replace
from pathlib import Path

import pytest

from gpubuild.model.digest import digest_bytes, digest_file, encode, is_digest
from gpubuild.model.project import Offload
from gpubuild.model.step import (
    Action,
    BundleParams,
    CcParams,
    CompileParams,
    HostParams,
    LinkParams,
    LlvmParams,
    OutlineParams,
    PreprocessParams,
    RuntimeParams,
    StepKind,
    action_key,
)
from gpubuild.support.frozen import field, frozen
from gpubuild.targets.target import Sanitize, Target

A, B = digest_bytes(b"a"), digest_bytes(b"b")
TARGET = Target(name="a", kind="nvvm", triple="t", chip="sm_60")
BASE = Action(
    kind=StepKind.COMPILE,
    params=CompileParams(module="m", target=TARGET),
    inputs=(("module", A),),
    tools=(("ptxas", A),),
)
OTHER = {
    "kind": StepKind.HOST,
    "params": CompileParams(module="m", target=replace(TARGET, chip="sm_90")),
    "inputs": (("module", B),),
    "tools": (("ptxas", B),),
    "version": "gpubuild.action/0",
}


@pytest.mark.parametrize("name", [f.name for f in fields(Action)])
def test_every_field_is_in_the_key(name: str) -> None:
    """A new field without an entry in OTHER fails here with KeyError."""
    assert action_key(replace(BASE, **{name: OTHER[name]})) != action_key(BASE)


PARAMS = {
    OutlineParams(): {"passes": "p", "constants": ("N=1",), "source_name": "a.mlir", "names": True},
    BASE.params: {
        "module": "n", "target": replace(TARGET, chip="sm_90"), "relocatable": True, "assembly": False,
    },
    TARGET: {
        "kind": "cpu", "triple": "u", "chip": "sm_90", "features": "+ptx80", "opt_level": 2,
        "fast_math": True, "flags": ("ftz",), "abi": "500", "assembler_options": ("-lineinfo",),
        "debug": True, "passes": "p", "sanitize": (Sanitize.BOUNDS,),
    },
    BundleParams(module="m", handler="h", targets=(TARGET,), names=("a",), formats=("",)): {
        "module": "n", "handler": "g", "targets": (), "names": ("b",), "formats": ("bin",),
        "host_triple": "aarch64", "chosen": True,
    },
    HostParams(modules=("m",), offload=Offload.DISPATCH): {
        "modules": ("n",), "chosen": ("m",), "offload": Offload.SELECT_OBJECT, "passes": "p", "opt_level": 0,
        "debug": True, "triple": "aarch64",
    },
    PreprocessParams(language="c", suffix=".i"): {
        "language": "c++", "suffix": ".ii", "opt_level": 0, "debug": True, "std": "c11", "include": ("a",),
        "define": ("X",), "flags": ("-DX",), "source_name": "a.c",
    },
    CcParams(language="c"): {
        "language": "c++", "opt_level": 0, "debug": True, "std": "c11", "flags": ("-x",),
    },
    LlvmParams(triple="t"): {"triple": "u", "opt_level": 0, "bitcode": True},
    RuntimeParams(): {"opt_level": 0},
    LinkParams(): {
        "libraries": ("m",), "flags": ("-s",), "cxx": True, "debug": True, "shared": True,
        "wrapper_triple": "t", "present": ("/lib/libm.so",),
    },
}  # fmt: skip


@pytest.mark.parametrize("params", list(PARAMS), ids=lambda p: type(p).__name__)
def test_every_param_is_in_the_key(params: object) -> None:
    """A new parameter without an entry in PARAMS fails here with KeyError."""
    for f in fields(params):
        if f.compare:
            changed = replace(params, **{f.name: PARAMS[params][f.name]})
            assert encode(changed) != encode(params), f.name


def test_names_for_messages_are_not_in_the_key() -> None:
    renamed = replace(TARGET, name="other", device_libs=(Path("moved.bc"),))
    assert (renamed, encode(renamed)) == (TARGET, encode(TARGET))


def test_digests_must_be_digests() -> None:
    with pytest.raises(ValueError, match="64 hexadecimal"):
        replace(BASE, inputs=(("module", "short"),))


def test_neighbours_cannot_run_together() -> None:
    trees: list[object] = [("ab", "c"), ("a", "bc"), ("abc",), "abc", b"abc", (("a",), "bc"), (), "", None]
    trees += [0, "0", False, True, 1, (1, 2), (12,), ("s1:a",)]
    assert len({encode(t) for t in trees}) == len(trees)


def test_class_names_count() -> None:
    @frozen
    class One:
        x: int = 1
        note: str = field(default="", compare=False)

    @frozen
    class Two:
        x: int = 1

    assert encode(One()) != encode(Two())
    assert encode(One(note="a")) == encode(One(note="b"))


def test_unknown_values_are_refused() -> None:
    with pytest.raises(TypeError, match="float"):
        encode(1.5)
    with pytest.raises(TypeError, match="list"):
        encode([1])


def test_digest_spelling(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a")
    assert digest_file(tmp_path / "f") == A
    assert is_digest(A)
    assert not is_digest(A.upper())
    assert not is_digest(A[:-1])
    assert not is_digest("../" + A[3:])
