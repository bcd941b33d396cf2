"""Kernels with barriers that all work-items reach, or some do not; with what makes the wrong ones right."""

# ruff: noqa: E501  (programs inside strings)

from __future__ import annotations

from dataclasses import dataclass

ALWAYS, MAYBE, NEVER = "error", "warning", ""


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """``says`` are parts of the message, ``better`` a change after which nothing is reported.

    ``block`` is the workgroup's size that the kernel knows, if any; ``launch`` the grid, the size and the
    first argument of a launch, if the file has one.
    """

    body: str
    reported: str = NEVER
    says: tuple[str, ...] = ()
    better: tuple[str, str] = ("", "")
    block: str = "64, 1, 1"
    launch: str = ""
    module: str = ""


_IDS = """
    %t = gpu.thread_id x
    %y = gpu.thread_id y
    %g = gpu.global_id x
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %c32 = arith.constant 32 : index
    %c64 = arith.constant 64 : index
    %i1 = arith.constant 1 : i32
    %i8 = arith.constant 8 : i32
    %i32 = arith.constant 32 : i32
    %true = arith.constant true
    %false = arith.constant false
"""
_LOWER = "%lower = arith.cmpi ult, %t, %c16 : index\n"
_LOADED = "%loaded = memref.load %m[%c0] : memref<?xindex>\n"
_KEPT = "%k = arith.index_cast %s : i32 to index\nmemref.store %k, %m[%t] : memref<?xindex>\n"
_ALL = ("ult, %t, %c16", "ult, %t, %c64")

KERNELS = {
    # conditions
    "lower_half": Kernel(
        body=_LOWER + "scf.if %lower { gpu.barrier }",
        reported=ALWAYS,
        says=("work-item (0, 0, 0) waits here at gpu.barrier", "work-item (16, 0, 0) of its workgroup",
              "never reaches it", "condition: true for work-item (0, 0, 0), false for (16, 0, 0)",
              "in workgroups of 64 x 1 x 1"),
        better=_ALL,
    ),
    "block_of_that_size": Kernel(body=_LOWER + "scf.if %lower { gpu.barrier }", block="16, 1, 1"),
    "no_size_known": Kernel(body=_LOWER + "scf.if %lower { gpu.barrier }", block=""),
    "one_of_any_workgroup": Kernel(
        body="%c = arith.cmpi eq, %t, %c0 : index\nscf.if %c { gpu.barrier }",
        block="",
        reported=MAYBE,
        says=("in workgroups of more than one work-item",),
        better=("eq, %t, %c0", "sge, %t, %c0"),
    ),
    "both_arms": Kernel(
        body=_LOWER + "scf.if %lower { gpu.barrier } else { gpu.barrier }",
        reported=ALWAYS,
        says=("waits at another gpu.barrier", "work-item (16, 0, 0) waits here"),
        better=_ALL,
    ),
    "second_dimension": Kernel(
        body="%c = arith.cmpi eq, %y, %c3 : index\nscf.if %c { gpu.barrier }",
        block="8, 4, 1",
        reported=ALWAYS,
        says=("work-item (0, 3, 0)",),
        better=("eq, %y", "eq, %c3"),
    ),
    "selected": Kernel(
        body=_LOWER + "%s = arith.select %lower, %c0, %c1 : index\n"
        "scf.index_switch %s\ncase 0 { gpu.barrier\nscf.yield }\ndefault { }",
        reported=ALWAYS,
        says=("condition: 0 for work-item (0, 0, 0), 1 for (16, 0, 0)",),
        better=_ALL,
    ),
    "half_known": Kernel(
        body=_LOWER + _LOADED + "%big = arith.cmpi ult, %loaded, %c4 : index\n"
        "%c = arith.andi %lower, %big : i1\nscf.if %c { gpu.barrier }",
    ),
    "loaded": Kernel(body=_LOADED + "%c = arith.cmpi ult, %t, %loaded : index\nscf.if %c { gpu.barrier }"),
    "dead_for_this_size": Kernel(
        body=_LOWER + "%d = gpu.block_dim x\n%wide = arith.cmpi ugt, %d, %c64 : index\n"
        "%c = arith.andi %lower, %wide : i1\nscf.if %c { gpu.barrier }",
    ),
    "argument": Kernel(
        body=_LOWER + "%some = arith.cmpi ugt, %n, %c4 : index\nscf.if %some { scf.if %lower { gpu.barrier } }",
        reported=MAYBE,
        says=("work-item (0, 0, 0) may wait here",),
        better=_ALL,
    ),
    "argument_uniform": Kernel(body="%c = arith.cmpi ugt, %n, %c4 : index\nscf.if %c { gpu.barrier }"),
    "workgroup_decides": Kernel(
        body="%b = gpu.block_id x\n%c = arith.cmpi eq, %b, %c0 : index\nscf.if %c { gpu.barrier }"
    ),
    "bound_is_unknown": Kernel(body="%c = arith.cmpi ult, %g, %n : index\nscf.if %c { gpu.barrier }"),
    # what a launch decides
    "end_of_the_grid": Kernel(
        body="%c100 = arith.constant 100 : index\n%c = arith.cmpi ult, %g, %c100 : index\nscf.if %c { gpu.barrier }",
        launch="%c2, %c64, %c64",
        reported=ALWAYS,
        says=("work-item (0, 0, 0) of workgroup (1, 0, 0)", "launched here with workgroups of 64 x 1 x 1"),
        better=("constant 100", "constant 128"),
    ),
    "argument_of_a_launch": Kernel(
        body="%c = arith.cmpi uge, %g, %n : index\ncf.cond_br %c, ^out, ^work\n^work:\ngpu.barrier\ncf.br ^out\n^out:",
        launch="%c2, %c64, %few",
        reported=ALWAYS,
        says=("of workgroup (1, 0, 0)", "condition: false for"),
        better=("uge, %g, %n", "uge, %c0, %n"),
    ),
    "size_computed_by_the_host": Kernel(
        body=_LOWER + "scf.if %lower { gpu.barrier }",
        block="",
        launch="%c2, %wide, %c64",
        reported=ALWAYS,
        says=("launched here with workgroups of 128 x 1 x 1",),
        better=("ult, %t, %c16", "uge, %t, %c0"),
    ),
    # ways out
    "return": Kernel(
        body="%c = arith.cmpi uge, %t, %c16 : index\ncf.cond_br %c, ^out, ^work\n^work:\n"
        "gpu.barrier\ncf.br ^out\n^out:",
        reported=ALWAYS,
        says=("never reaches it", "condition: false for work-item (0, 0, 0)"),
        better=("uge, %t, %c16", "uge, %t, %c64"),
    ),
    "return_before_a_loop": Kernel(
        body="%c = arith.cmpi uge, %t, %c16 : index\ncf.cond_br %c, ^out, ^work\n^work:\n"
        "scf.for %i = %c0 to %n step %c1 { gpu.barrier }\ncf.br ^out\n^out:",
        reported=MAYBE,
        says=("may wait here",),
        better=("uge, %t, %c16", "uge, %t, %c64"),
    ),
    "ways_that_meet_again": Kernel(
        body="%c = arith.cmpi uge, %t, %c16 : index\ncf.cond_br %c, ^one, ^two\n^one:\ncf.br ^three\n"
        "^two:\nmemref.store %c0, %m[%t] : memref<?xindex>\ncf.br ^three\n^three:\ngpu.barrier",
    ),
    "branches_of_the_argument": Kernel(
        body="%c = arith.cmpi uge, %n, %c16 : index\ncf.cond_br %c, ^out, ^work\n^work:\n"
        + _LOWER + "scf.if %lower { gpu.barrier }\ncf.br ^out\n^out:",
        reported=MAYBE,
        better=_ALL,
    ),
    "switch": Kernel(
        body="%r = arith.remui %t, %c3 : index\n%s = arith.index_cast %r : index to i32\n"
        "cf.switch %s : i32, [\ndefault: ^out,\n1: ^work ]\n^work:\ngpu.barrier\ncf.br ^out\n^out:",
        reported=ALWAYS,
        says=("condition: 1 for",),
        better=("%t, %c3", "%c16, %c3"),
    ),
    # loops
    "turns_of_ones_own": Kernel(
        body="scf.for %i = %c0 to %t step %c1 { gpu.barrier }",
        reported=ALWAYS,
        says=("iterations of this loop: 1 for work-item (1, 0, 0), 0 for (0, 0, 0)",),
        better=("to %t", "to %c4"),
    ),
    "iterations_that_differ": Kernel(
        body="%c100 = arith.constant 100 : index\nscf.for %i = %t to %c100 step %c32 { gpu.barrier }",
        block="32, 1, 1",
        reported=ALWAYS,
        says=("work-item (4, 0, 0) of its workgroup reaches it 3 times, not 4",
              "iterations of this loop: 4 for work-item (0, 0, 0), 3 for (4, 0, 0)"),
        better=("constant 100", "constant 128"),
    ),
    "each_from_its_own_place": Kernel(body="scf.for %i = %t to %n step %c64 { gpu.barrier }"),
    "in_a_loop_of_unknown_length": Kernel(
        body=_LOWER + "scf.for %i = %c0 to %n step %c1 { scf.if %lower { gpu.barrier } }",
        reported=MAYBE,
        says=("may wait here",),
        better=_ALL,
    ),
    "takes_turns": Kernel(
        body="scf.for %i = %c0 to %n step %c1 {\n%mine = arith.cmpi eq, %i, %t : index\nscf.if %mine { gpu.barrier }\n}"
    ),
    "affine": Kernel(
        body="affine.for %i = 0 to 4 { affine.if affine_set<(d0) : (15 - d0 >= 0)>(%t) { gpu.barrier } }",
        reported=ALWAYS,
        says=("work-item (16, 0, 0)",),
        better=("15 - d0", "63 - d0"),
    ),
    # calls
    "called": Kernel(
        module="func.func private @sync() { gpu.barrier\nreturn }",
        body=_LOWER + "scf.if %lower { func.call @sync() : () -> () }",
        reported=ALWAYS,
        says=("waits here at gpu.barrier",),
        better=_ALL,
    ),
    "called_on_both_ways": Kernel(
        module="func.func private @sync() { gpu.barrier\nreturn }",
        body=_LOWER + "scf.if %lower { func.call @sync() : () -> () } else { func.call @sync() : () -> () }",
    ),
    "decided_in_a_callee": Kernel(
        module="func.func private @sync(%go: i1) { scf.if %go { gpu.barrier }\nreturn }",
        body=_LOWER + "func.call @sync(%lower) : (i1) -> ()",
        reported=ALWAYS,
        better=_ALL,
    ),
    "condition_from_a_callee": Kernel(
        module="func.func private @low(%t: index) -> i1 { %c = arith.constant 16 : index\n"
        "%r = arith.cmpi ult, %t, %c : index\nreturn %r : i1 }",
        body="%go = func.call @low(%t) : (index) -> i1\nscf.if %go { gpu.barrier }",
        reported=ALWAYS,
        better=("constant 16 : index\n%r", "constant 64 : index\n%r"),
    ),
    "who_knows_what_comes_back": Kernel(
        module="func.func private @stop()",
        body="%c = arith.cmpi uge, %t, %c16 : index\ncf.cond_br %c, ^bad, ^work\n^bad:\nfunc.call @stop() : () -> ()\n"
        "cf.br ^out\n^work:\ngpu.barrier\ncf.br ^out\n^out:",
    ),
    "assertion": Kernel(body=_LOWER + 'cf.assert %false, "no"\nscf.if %lower { gpu.barrier }'),
    "recursion": Kernel(
        module="func.func private @again(%c: i1) { scf.if %c { func.call @again(%c) : (i1) -> ()\ngpu.barrier }\nreturn }",
        body=_LOWER + "func.call @again(%lower) : (i1) -> ()",
    ),
    # reductions, subgroups
    "all_reduce": Kernel(
        body=_LOWER + "scf.if %lower { %s = gpu.all_reduce add %i1 uniform {} : (i32) -> i32 }",
        reported=ALWAYS,
        says=("waits here at gpu.all_reduce",),
        better=_ALL,
    ),
    "subgroup_reduce": Kernel(
        body=_LOWER + "scf.if %lower { %s = gpu.subgroup_reduce add %i1 uniform : (i32) -> i32\n" + _KEPT + "}",
        reported=ALWAYS,
        says=("work-item (16, 0, 0) of its subgroup",),
        better=("uniform", ""),
    ),
    "lane": Kernel(
        body="%l = gpu.lane_id\n%c = arith.cmpi eq, %l, %c0 : index\nscf.if %c { gpu.barrier }",
        reported=ALWAYS,
        says=("work-item (1, 0, 0) of its workgroup never reaches it",),
        better=("eq, %l", "eq, %c0"),
    ),
    "size_of_a_subgroup": Kernel(
        body="%s = gpu.subgroup_id : index\n%c = arith.cmpi eq, %s, %c0 : index\nscf.if %c { gpu.barrier }",
    ),
    "subgroups_apart": Kernel(
        body="%c = arith.cmpi ult, %t, %c64 : index\n"
        "scf.if %c { %s = gpu.subgroup_reduce add %i1 uniform : (i32) -> i32\n" + _KEPT + "}",
        block="128, 1, 1",
    ),
    "shuffle_and_barrier": Kernel(
        body=_LOWER + "scf.if %lower { %s, %v = gpu.shuffle xor %i1, %i1, %i32 : i32\n" + _KEPT + "}\ngpu.barrier",
        reported=ALWAYS,
        says=("waits here at gpu.shuffle", "work-item (16, 0, 0) of its subgroup never reaches it"),
        better=("%i32 : i32", "%i8 : i32"),
    ),
    "shuffle_for_nothing": Kernel(
        body=_LOWER + "scf.if %lower { %s, %v = gpu.shuffle xor %i1, %i1, %i32 : i32 }\ngpu.barrier"
    ),
    "shuffle_of_those_left": Kernel(
        body=_LOWER + "scf.if %lower { %s, %v = gpu.shuffle xor %i1, %i1, %i32 : i32\n" + _KEPT + "}"
    ),
    "matrix": Kernel(
        body=_LOWER + "scf.if %lower { %a = gpu.subgroup_mma_load_matrix %w[%c0, %c0] {leadDimension = 16 : index} : "
        'memref<16x16xf16> -> !gpu.mma_matrix<16x16xf16, "COp">\n'
        "gpu.subgroup_mma_store_matrix %a, %w[%c0, %c0] {leadDimension = 16 : index} : "
        '!gpu.mma_matrix<16x16xf16, "COp">, memref<16x16xf16> }',
        reported=ALWAYS,
        says=("gpu.subgroup_mma_load_matrix",),
        better=("ult, %t, %c16", "uge, %t, %c0"),
    ),
    "barriers_of_nvidia": Kernel(body=_LOWER + "scf.if %lower { gpu.barrier } else { nvvm.barrier }"),
}  # fmt: skip


def source(kernel: Kernel) -> str:
    """A file with it."""
    size = f" attributes {{known_block_size = array<i32: {kernel.block}>}}" if kernel.block else ""
    host = ""
    if kernel.launch:
        grid, block, argument = kernel.launch.split(", ")
        host = f"""
  func.func @main(%m: memref<?xindex>, %w: memref<16x16xf16>) {{
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c64 = arith.constant 64 : index
    %few = arith.constant 100 : index
    %wide = arith.muli %c2, %c64 : index
    gpu.launch_func @k::@f blocks in ({grid}, %c1, %c1) threads in ({block}, %c1, %c1)
      args({argument} : index, %m : memref<?xindex>, %w : memref<16x16xf16>)
    return
  }}"""
    return f"""module attributes {{gpu.container_module}} {{
  gpu.module @k {{
  {kernel.module}
  gpu.func @f(%n: index, %m: memref<?xindex>, %w: memref<16x16xf16>) kernel{size} {{{_IDS}
    {kernel.body}
    gpu.return
  }}
  }}{host}
}}
"""
