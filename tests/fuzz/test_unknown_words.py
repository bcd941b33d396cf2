"""An unknown word in any place that takes one is an error that quotes it, never ignored."""

from __future__ import annotations

import os
import random
import string
from collections.abc import Iterator
from pathlib import Path

import pytest
from unit.engine.device_steps import outline_source

from gpubuild.config.load import loads
from gpubuild.errors import ConfigError, StepError

WORDS = int(os.environ.get("GPUBUILD_TEST_WORDS", "2"))  # for each place
KNOWN = frozenset({"fast", "ftz", "daz", "bin", "cpu", "nvvm", "rocdl", "clang"})

# Where a target and a program of targets.yaml, a gpu.module and a pipeline take a word.
SETTINGS = {
    "key of a target": "targets: {{sm_90: {{{word}: 1}}}}",
    "kind": "targets: {{a: {{kind: {word}, chip: sm_90}}}}",
    "chip": "targets: {{a: {{kind: nvvm, chip: {word}}}}}",
    "feature": "targets: {{sm_90: {{features: +{word}}}}}",
    "flag of NVIDIA": "targets: {{sm_90: {{flags: [{word}]}}}}",
    "flag of AMD": "targets: {{gfx90a: {{flags: [{word}]}}}}",
    "flag of a CPU": "targets: {{cpu: {{flags: [{word}]}}}}",
    "abi": "targets: {{gfx90a: {{abi: {word}}}}}",
    "format": "targets: {{sm_90: {{format: {word}}}}}",
    "option of ptxas": "targets: {{sm_90: {{ptxas_options: [{word}]}}}}",
    "check": "targets: {{cpu: {{sanitize: [{word}]}}}}",
}
PROGRAM = {
    "offload": "offload: {word}",
    "target of a program": "targets: [{word}]",
    "select": "offload: select_object, select: {word}",
    "key of passes": "passes: {{{word}: x}}",
}
IR = {
    "flag of NVIDIA": "[#nvvm.target<flags = {{{word}}}>]",
    "flag of AMD": "[#rocdl.target<flags = {{daz, {word}}}>]",
    "flag of a CPU": '[#nvvm.target<triple = "x86_64-unknown-linux-gnu", flags = {{{word}}}>]',
    "field of a target": '[#nvvm.target<chip = "sm_90", {word} = 1>]',
    "level": "[#rocdl.target<O = {word}>]",
    "abi": '[#rocdl.target<abi = "{word}">]',
    "target": "[#{word}.target]",
    "handler": "<#gpu.{word}<0>> [#nvvm.target]",
    "file for ptxas": '[#nvvm.target<flags = {{"ptxas-cmd-options" = ["{word}"]}}>]',
}
PASSES = {
    "pass": "builtin.module({word})",
    "option of a pass": "builtin.module(nvvm-attach-target{{{word}=1}})",
    "library": "builtin.module(nvvm-attach-target,gpu-module-to-binary{{format=isa l={word}}})",
}


def words(place: str) -> Iterator[str]:
    """Yield made-up words, the same ones in every run."""
    source = random.Random(place)
    while True:
        word = "".join(source.choices(string.ascii_lowercase, k=source.randint(4, 12)))
        if word not in KNOWN:
            yield word


def first(place: str) -> list[str]:
    return [word for word, _ in zip(words(place), range(WORDS), strict=False)]


@pytest.mark.parametrize("place", [*SETTINGS, *PROGRAM])
def test_in_targets_yaml(place: str, tmp_path: Path) -> None:
    (tmp_path / "m.c").touch()
    for word in first(place):
        targets = SETTINGS.get(place, "targets: {{cpu: {{}}}}").format(word=word)
        options = PROGRAM.get(place, "offload: dispatch").format(word=word)
        text = f"version: 1\n{targets}\nprograms: {{p: {{sources: [m.c], {options}}}}}\n"
        with pytest.raises(ConfigError) as caught:
            loads(text, tmp_path / "targets.yaml")
        assert word in caught.value.render()


@pytest.mark.parametrize("place", IR)
def test_in_the_ir(place: str) -> None:
    for word in first(place):
        attributes = IR[place].format(word=word)
        with pytest.raises(StepError) as caught:
            outline_source(f"gpu.module @k {attributes} {{\ngpu.func @f() kernel {{\ngpu.return\n}}\n}}\n")
        assert word in caught.value.render()


@pytest.mark.parametrize("place", PASSES)
def test_in_pipelines(place: str) -> None:
    for word in first(place):
        with pytest.raises(StepError) as caught:
            outline_source("gpu.module @k {}", passes=PASSES[place].format(word=word))
        assert word in caught.value.render()
