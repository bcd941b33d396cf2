"""Kernels and variables on the stand-in that are called as functions and variables of the C library are."""

from __future__ import annotations

from pathlib import Path

import pytest
from simulators.cuda_driver import scripts
from variants import few

# What the C library has functions and variables of, and memset, which the code generator calls for `.local`.
C_NAMES = ("step", "malloc", "exp", "memset", "printf")
NAMESAKES = """
.version 7.8
.target sm_60
.address_size 64
.visible .global .align 4 .u32 environ = {number};
.shared .align 4 .b8 stdout[4];
.extern .shared .align 4 .b8 optarg[];
.visible .entry {name}(.param .u64 p, .param .u32 n) {{
	.local .align 4 .b8 own[400];
	.reg .b32 %r<4>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [p];
	ld.param.u32 %r1, [n];
	cvta.to.global.u64 %rd2, %rd1;
	st.local.u32 [own], %r1;
	st.shared.u32 [stdout], %r1;
	st.shared.u32 [optarg], %r1;
	ld.global.u32 %r2, [environ];
	ld.local.u32 %r3, [own];
	add.s32 %r2, %r2, %r3;
	ld.shared.u32 %r3, [stdout];
	add.s32 %r2, %r2, %r3;
	ld.shared.u32 %r3, [optarg];
	add.s32 %r2, %r2, %r3;
	st.global.u32 [%rd2], %r2;
	ret;
}}
"""


@pytest.mark.parametrize(("number", "name"), few(enumerate(C_NAMES), 2))
def test_names_that_the_c_library_has_too(tmp_path: Path, number: int, name: str) -> None:
    ptx = tmp_path / "namesakes.ptx"
    ptx.write_text(NAMESAKES.format(number=1000 * number, name=name))
    script = f"""
        d, h = alloc(16), ints(1)
        launch(kernel(load(sys.argv[1]), {name!r}), d, c_int(7), shared=4)
        copy(h, d, 4)
        sync()
        print(h[0])
    """
    done = scripts.run(script, ptx, modules=tmp_path)
    assert (done.code, done.out) == (0, f"{1000 * number + 21}\n"), done.err
