"""``gpubuild init``: write the files of a new project, and the CI recipes that docs/how-to/ci.md explains."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from gpubuild.cli.console import Console
from gpubuild.errors import UsageError
from gpubuild.support.text import shown_path

GITHUB = """\
on:
  push: {branches: [main]}  # your default branch; other branches are built as pull requests
  pull_request:
permissions: {contents: read}
jobs:
  build:
    runs-on: ubuntu-24.04
    steps:
      - uses: actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683  # v4.2.2
      - uses: actions/setup-python@a26af69be951a213d495a4c3e4e4022e16d87065  # v5.6.0
        with:
          python-version: "3.12"
          cache: pip
          cache-dependency-path: .github/workflows/gpubuild.yml
      - run: pip install gpubuild==0.1.0  # until it is published: a wheel file
      - uses: actions/cache/restore@5a3ec84eff668545956fd18022155c47e93e2684  # v4.2.3
        with:
          path: gpubuild-cache.tar
          key: gpubuild-${{ github.run_id }}-${{ github.run_attempt }}
          restore-keys: gpubuild-
      - run: |
          gpubuild cache import gpubuild-cache.tar || true
          gpubuild build --json --message-format github > build.json
          GPUBUILD_DEVICE=cpu gpubuild run --all
      - if: always() && hashFiles('build.json') != ''
        run: |
          python3 - build.json >> "$GITHUB_STEP_SUMMARY" <<'END'
          import json, sys
          s = json.load(open(sys.argv[1]))["summary"]
          ran, hits = s.get("ran", 0), s.get("hit-local", 0) + s.get("hit-remote", 0)
          print(f"{s['steps']} steps: {ran} ran, {hits} cached, {s.get('saved_seconds', 0):.0f} s saved")
          print(s.get("note", ""))
          END
      - if: github.event_name == 'push'
        run: gpubuild cache export gpubuild-cache.tar
      - if: github.event_name == 'push'
        uses: actions/cache/save@5a3ec84eff668545956fd18022155c47e93e2684  # v4.2.3
        with:
          path: gpubuild-cache.tar
          key: gpubuild-${{ github.run_id }}-${{ github.run_attempt }}
"""

GITLAB = """\
build:
  image: python:3.12.11-bookworm
  before_script:
    - pip install gpubuild==0.1.0  # until it is published: a wheel file
  script:
    - gpubuild cache import gpubuild-cache.tar || true
    - gpubuild build --json > build.json
    - GPUBUILD_DEVICE=cpu gpubuild run --all
    - gpubuild cache export gpubuild-cache.tar
  cache:
    - key: gpubuild
      paths: [gpubuild-cache.tar]
      policy: $CACHE_POLICY
    - key: {files: [.gitlab-ci.yml]}
      paths: [.cache/pip]
  artifacts: {paths: [build.json], when: always}
  variables:
    CACHE_POLICY: pull
    PIP_CACHE_DIR: $CI_PROJECT_DIR/.cache/pip
  rules:
    - if: $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH
      variables: {CACHE_POLICY: pull-push}
    - if: $CI_PIPELINE_SOURCE == "merge_request_event"
"""


TARGETS_YAML = """\
# What to build, and for which devices. See `gpubuild --help`.
version: 1

targets:
  sm_60: {}
  sm_90: {}
  gfx90a: {}
  cpu: {}

programs:
  scale:
    sources: [scale.mlir, main.c]
    tests:
      cpu: {devices: [cpu], stdout: "scale: OK (0 of 1000 elements wrong)"}
"""

KERNEL = """\
// scale(factor, x): multiplies every element of x by factor, on the device.
module attributes {gpu.container_module} {
  gpu.module @scale_kernels {
    gpu.func @scale(%factor: f32, %x: memref<?xf32>, %n: index) kernel {
      %i = gpu.global_id x
      %inside = arith.cmpi ult, %i, %n : index
      scf.if %inside {
        %old = memref.load %x[%i] : memref<?xf32>
        %new = arith.mulf %factor, %old : f32
        memref.store %new, %x[%i] : memref<?xf32>
      }
      gpu.return
    }
  }

  func.func @scale(%factor: f32, %x: memref<?xf32>) attributes {llvm.emit_c_interface} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c256 = arith.constant 256 : index
    %n = memref.dim %x, %c0 : memref<?xf32>
    %blocks = arith.ceildivui %n, %c256 : index

    %t0 = gpu.wait async
    %dx, %t1 = gpu.alloc async [%t0] (%n) : memref<?xf32>
    %t2 = gpu.memcpy async [%t1] %dx, %x : memref<?xf32>, memref<?xf32>
    %t3 = gpu.launch_func async [%t2] @scale_kernels::@scale
        blocks in (%blocks, %c1, %c1) threads in (%c256, %c1, %c1)
        args(%factor : f32, %dx : memref<?xf32>, %n : index)
    %t4 = gpu.memcpy async [%t3] %x, %dx : memref<?xf32>, memref<?xf32>
    %t5 = gpu.dealloc async [%t4] %dx : memref<?xf32>
    gpu.wait [%t5]
    return
  }
}
"""

MAIN_C = """\
#include <stdint.h>
#include <stdio.h>

// How MLIR passes a memref<?xf32>.
typedef struct {
  float *allocated;
  float *aligned;
  intptr_t offset;
  intptr_t sizes[1];
  intptr_t strides[1];
} Vector;

void _mlir_ciface_scale(float factor, Vector *x);

int main(void) {
  float data[1000];
  for (int i = 0; i < 1000; ++i) data[i] = (float)i;
  Vector x = {data, data, 0, {1000}, {1}};
  _mlir_ciface_scale(3.0f, &x);
  int wrong = 0;
  for (int i = 0; i < 1000; ++i) wrong += data[i] != 3.0f * (float)i;
  printf("scale: %s (%d of 1000 elements wrong)\\n", wrong ? "FAILED" : "OK", wrong);
  return wrong != 0;
}
"""

EXPECTED = "scale: OK (0 of 1000 elements wrong)\n"

GITIGNORE = "/build/\n/cache/\n"

SCONSTRUCT = """\
# `scons` builds every program of targets.yaml, one node per kernel module and target.
env = Environment(tools=["gpubuild"])
env.GpuPrograms("targets.yaml")
"""
SCONS_IGNORED = "/.sconsign.dblite\n"

OPTIONAL = frozenset({".gitignore"})  # kept if it exists
SERVICES = {"github": (".github/workflows/gpubuild.yml", GITHUB), "gitlab": (".gitlab-ci.yml", GITLAB)}


def files(*, scons: bool = False, service: str = "") -> dict[str, str]:
    """Return the texts of the files by name. ``service`` is a key of ``SERVICES`` or empty."""
    found = {
        "targets.yaml": TARGETS_YAML,
        "scale.mlir": KERNEL,
        "main.c": MAIN_C,
        "expected.txt": EXPECTED,
        ".gitignore": GITIGNORE + SCONS_IGNORED * scons,
    }
    if scons:
        found["SConstruct"] = SCONSTRUCT
    if service:
        name, text = SERVICES[service]
        found[name] = text
    return found


def execute(options: argparse.Namespace) -> int:
    """Run the command. It overwrites nothing."""
    console: Console = options.console
    folder: Path = options.directory
    wanted = files(scons=options.scons, service=options.ci)
    if options.ci and _exists(folder / "targets.yaml"):  # of an existing project
        name, text = SERVICES[options.ci]
        wanted = {name: text}
    taken = [name for name in wanted if name not in OPTIONAL and _exists(folder / name)]
    if taken:
        raise UsageError(
            f"{folder / taken[0]} exists; nothing was written",
            hint="choose another folder: gpubuild init DIR",
        )
    written: list[Path] = []
    try:
        for name, text in wanted.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if name in OPTIONAL and _exists(path):
                continue
            with path.open("x", encoding="utf-8") as stream:
                written.append(path)
                stream.write(text)
    except OSError as error:
        for made in written:  # else the next try refuses to overwrite them
            made.unlink(missing_ok=True)
        raise UsageError(f"cannot write {error.filename or path}: {error.strerror}") from error
    if not console.quiet:
        for path in written:
            console.print(f"wrote {shown_path(path.absolute())}")
        into = "" if folder.resolve() == Path.cwd() else f"cd {shlex.quote(str(folder))} && "
        if "targets.yaml" in wanted:
            console.print(f"next: {into}{'scons -Q' if options.scons else 'gpubuild run'}")
    return 0


def _exists(path: Path) -> bool:
    return path.exists() or path.is_symlink()
