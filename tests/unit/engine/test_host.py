"""Host code: real binaries in place, lowered, embedded for dispatch or selected as upstream does."""

import re
import subprocess
from pathlib import Path

import mlir as mlir_package
import pytest
from elftools.elf.elffile import ELFFile
from unit.engine.steps import Ran, failing_step, run_step
from unit.engine.test_bundle import BLOBS, OBJECTS, PTX, inputs

from gpubuild.engine import gpu_binary, host, mlir, token_flow
from gpubuild.engine.offload import ImageKind, OffloadKind, unpack
from gpubuild.model.params import BundleParams, HostParams
from gpubuild.model.project import Offload
from gpubuild.model.step import StepKind

UPSTREAM = Path(next(iter(mlir_package.__path__))) / "bin"
OUTPUTS = ("mlir", "llvm", "object")
PLACEHOLDER = 'gpu.binary @saxpy_kernels <#gpu.select_object> [#gpu.object<#nvvm.target, bin = "">]'
LAUNCH = """    %one = arith.constant 1 : index
    gpu.launch_func @saxpy_kernels::@saxpy blocks in (%one, %one, %one) threads in (%n, %one, %one)
      args(%a : f32, %x : memref<?xf32>)
"""
HOST = f"""module attributes {{gpu.container_module}} {{
  {PLACEHOLDER}
  func.func @run(%a: f32, %x: memref<?xf32>, %n: index) attributes {{llvm.emit_c_interface}} {{
{LAUNCH}    return
  }}
}}
"""


def bundled(tmp_path: Path, handler: str = "#gpu.select_object<2>") -> str:
    params = BundleParams(module="saxpy_kernels", handler=handler, objects=OBJECTS)
    return run_step(tmp_path / "bundle", StepKind.BUNDLE, params, inputs(), ("binary",)).text("binary")


def params(offload: Offload = Offload.DISPATCH, **more: object) -> HostParams:
    return HostParams(modules=("saxpy_kernels",), offload=offload, **more)  # type: ignore[arg-type]


def lowered(tmp_path: Path, text: str = HOST, given: HostParams | None = None) -> Ran:
    given = given or params()
    binaries = {f"binary.{n}": bundled(tmp_path) for n in range(len(given.modules))}
    return run_step(tmp_path / "host", StepKind.HOST, given, {"host": text, **binaries}, OUTPUTS)


def section(tmp_path: Path, data: bytes, name: str) -> bytes | None:
    (tmp_path / "host.o").write_bytes(data)
    with (tmp_path / "host.o").open("rb") as stream:
        found = ELFFile(stream).get_section_by_name(name)
        return found.data() if found else None


def symbols(tmp_path: Path, data: bytes) -> dict[str, str]:
    """Global symbols and whether they are defined."""
    (tmp_path / "host.o").write_bytes(data)
    with (tmp_path / "host.o").open("rb") as stream:
        table = ELFFile(stream).get_section_by_name(".symtab")
        return {
            s.name: "undefined" if s["st_shndx"] == "SHN_UNDEF" else "defined"
            for s in table.iter_symbols()
            if s["st_info"]["bind"] == "STB_GLOBAL"
        }


def test_mlir_output_has_the_real_binaries_and_upstream_takes_it(tmp_path: Path) -> None:
    text = lowered(tmp_path).text("mlir")
    made = subprocess.run([UPSTREAM / "mlir-opt"], input=text, capture_output=True, text=True, check=True)
    with mlir.context():
        objects = gpu_binary.read_objects(gpu_binary.binaries(mlir.parse(made.stdout))["saxpy_kernels"])
    assert tuple(o.data for o in objects) == BLOBS
    assert "gpu.launch_func" in text


def test_dispatch_embeds_a_container_with_every_image(tmp_path: Path) -> None:
    ran = lowered(tmp_path)
    data = section(tmp_path, ran.outputs["object"], ".llvm.offloading")
    assert data is not None
    images = unpack(data)
    assert [(i.image_kind, i.offload_kind, i.strings["arch"]) for i in images] == [
        (ImageKind.CUBIN, OffloadKind.CUDA, "sm_60"),
        (ImageKind.PTX, OffloadKind.CUDA, "sm_60"),
        (ImageKind.CUBIN, OffloadKind.CUDA, "sm_90a"),
        (ImageKind.OBJECT, OffloadKind.HIP, "gfx90a:sramecc+:xnack-"),
        (ImageKind.OBJECT, OffloadKind.NONE, "x86-64-v3"),
    ]
    assert tuple(i.data for i in images if i.image_kind != ImageKind.PTX) == BLOBS
    assert images[1].data == PTX.encode() + b"\0"
    assert {i.strings["gpubuild.module"] for i in images} == {"saxpy_kernels"}
    assert [i.strings["gpubuild.target"] for i in images] == ["sm_60", "sm_60", "hopper", "gfx90a", "cpu"]
    assert all('"name":"saxpy"' in i.strings["gpubuild.kernels"] for i in images)
    assert [i.strings.get("gpubuild.features") for i in images] == [None] * 4 + ["+avx512f"]
    assert images[3].strings["triple"] == "amdgcn-amd-amdhsa"


def test_modules_are_loaded_by_constructors_that_every_linker_keeps(tmp_path: Path) -> None:
    data = lowered(tmp_path).outputs["object"]
    assert section(tmp_path, data, ".init_array.00123") == bytes(8)
    assert section(tmp_path, data, ".fini_array.00123") == bytes(8)
    assert section(tmp_path, data, ".ctors.65412") is None
    found = symbols(tmp_path, data)
    assert found["mgpuModuleLoad"] == found["mgpuLaunchKernel"] == "undefined"
    assert found["run"] == found["_mlir_ciface_run"] == "defined"


def test_the_object_is_the_same_in_every_folder(tmp_path: Path) -> None:
    one, two = lowered(tmp_path / "a"), lowered(tmp_path / "b/longer")
    assert one.outputs == two.outputs
    assert str(tmp_path).encode() not in one.outputs["object"]


def upstream_llvm(text: str) -> str:
    """What upstream's own tools make of the host with its gpu.binary ops."""
    passes = host.PASSES.replace("builtin.module(", "builtin.module(func.func(gpu-async-region),", 1)
    optimised = subprocess.run(
        [UPSTREAM / "mlir-opt", f"--pass-pipeline={passes}"],
        input=text,
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    return subprocess.run(
        [UPSTREAM / "mlir-translate", "--mlir-to-llvmir"],
        input=optimised,
        capture_output=True,
        check=True,
        text=True,
    ).stdout


@pytest.mark.parametrize("index", range(len(OBJECTS)))
def test_select_object_gives_upstreams_llvm_ir(tmp_path: Path, index: int) -> None:
    binary = bundled(tmp_path, f"#gpu.select_object<{index}>")
    ran = run_step(
        tmp_path / "host",
        StepKind.HOST,
        params(Offload.SELECT_OBJECT),
        {"host": HOST, "binary.0": binary},
        OUTPUTS,
    )
    assert ran.text("llvm") == upstream_llvm(ran.text("mlir"))
    size = re.search(r"@saxpy_kernels_binary = internal constant \[(\d+) x i8\]", ran.text("llvm"))
    assert size is not None
    assert int(size[1]) == len(BLOBS[index])
    assert section(tmp_path, ran.outputs["object"], ".llvm.offloading") is None


def test_ready_binaries_of_the_users_pass_through(tmp_path: Path) -> None:
    ready = PLACEHOLDER.replace('bin = ""', 'properties = {O = 1 : i32}, assembly = "their own"')
    ran = lowered(
        tmp_path, HOST.replace(PLACEHOLDER, ready), HostParams(modules=(), offload=Offload.DISPATCH)
    )
    assert 'assembly = "their own"' in ran.text("mlir")
    assert "mgpuModuleLoadJIT" in symbols(tmp_path, ran.outputs["object"])


def test_a_source_without_kernels_is_lowered_too(tmp_path: Path) -> None:
    text = "module { func.func @f(%x: f32) -> f32 { %y = math.erf %x : f32\n return %y : f32 } }"
    ran = lowered(tmp_path, text, HostParams(modules=(), offload=Offload.DISPATCH))
    assert symbols(tmp_path, ran.outputs["object"]) == {"f": "defined", "erff": "undefined"}


@pytest.mark.parametrize("debug", [False, True])
def test_debug_information_only_when_asked_for(tmp_path: Path, debug: bool) -> None:
    with mlir.context():
        text = mlir.located_text(mlir.parse(HOST, source_name="src/saxpy.mlir"))
    ran = lowered(tmp_path, text, params(debug=debug))
    assert (section(tmp_path, ran.outputs["object"], ".debug_line") is not None) == debug


def run_body(tmp_path: Path, lines: str, arguments: str = "%n: index") -> str:
    """LLVM IR of a host function with this body."""
    function = f"func.func @f({arguments}) {{\n{lines}\n return\n}}"
    text = f"module attributes {{gpu.container_module}} {{\n{PLACEHOLDER}\n{function}\n}}"
    return lowered(tmp_path, text).text("llvm")


def calls(llvm: str) -> list[str]:
    return re.findall(r"call .*@(mgpu\w+)\(", llvm.split("define void @f")[1].split("\n}\n", maxsplit=1)[0])


SYNCHRONOUS = """ %h = memref.alloc(%n) : memref<?xf32>
 %d = gpu.alloc(%n) : memref<?xf32>
 gpu.memcpy %d, %h : memref<?xf32>, memref<?xf32>
 gpu.dealloc %d : memref<?xf32>"""


def test_synchronous_memory_operations(tmp_path: Path) -> None:
    assert calls(run_body(tmp_path, SYNCHRONOUS)) == [
        "mgpuStreamCreate", "mgpuMemAlloc", "mgpuMemcpy", "mgpuMemFree", "mgpuStreamSynchronize",
        "mgpuStreamDestroy",
    ]  # fmt: skip


def test_memory_shared_with_the_host_is_allocated_synchronously(tmp_path: Path) -> None:
    lines = """ %s = gpu.alloc host_shared (%n) : memref<?xf32>
 %zero = arith.constant 0 : index
 %v = memref.load %s[%zero] : memref<?xf32>
 memref.store %v, %s[%zero] : memref<?xf32>
 gpu.dealloc %s : memref<?xf32>"""
    llvm = run_body(tmp_path, lines)
    assert re.search(r"call ptr @mgpuMemAlloc\(i64 \S+, ptr null, i8 1\)", llvm)


def test_asynchronous_chain_with_several_dependencies(tmp_path: Path) -> None:
    lines = """ %t0 = gpu.wait async
 %d, %t1 = gpu.alloc async [%t0] (%n) : memref<?xf32>
 %e, %t2 = gpu.alloc async (%n) : memref<?xf32>
 %t3 = gpu.memcpy async [%t1, %t2] %d, %e : memref<?xf32>, memref<?xf32>
 %t4 = gpu.dealloc async [%t3] %d : memref<?xf32>
 gpu.wait [%t4]"""
    found = calls(run_body(tmp_path, lines))
    assert found.count("mgpuStreamWaitEvent") >= 2  # the copy waits for both allocations
    assert found.index("mgpuMemcpy") > found.index("mgpuStreamWaitEvent")
    assert found[-2:] == ["mgpuStreamSynchronize", "mgpuStreamDestroy"]


def test_synchronous_operations_beside_asynchronous_ones(tmp_path: Path) -> None:
    copy = "gpu.memcpy async [%t0] %d, %h : memref<?xf32>, memref<?xf32>"
    chain = f" %t0 = gpu.wait async\n %t = {copy}\n gpu.wait [%t]\n"
    lines = SYNCHRONOUS.replace(" gpu.dealloc", chain + " gpu.dealloc")
    found = calls(run_body(tmp_path, lines))
    assert found.count("mgpuMemcpy") == 2
    assert found.count("mgpuStreamCreate") == found.count("mgpuStreamDestroy") == 4


def test_asynchronous_shared_allocation_keeps_its_chain(tmp_path: Path) -> None:
    lines = """ %t0 = gpu.wait async
 %s, %t1 = gpu.alloc async [%t0] host_shared (%n) : memref<?xf32>
 %t2 = gpu.dealloc async [%t1] %s : memref<?xf32>
 gpu.wait [%t2]"""
    assert "mgpuMemFree" in calls(run_body(tmp_path, lines))


def test_launches_in_every_form(tmp_path: Path) -> None:
    launch = "gpu.launch_func {} @saxpy_kernels::@saxpy blocks in (%n, %n, %n) threads in (%n, %n, %n)"
    lines = "\n".join(
        [
            "%t = gpu.wait async",
            "%u = gpu.wait async",
            launch.format("[%t, %u]"),
            "%v = " + launch.format("async"),
            "%w = " + launch.format("async [%v, %t]"),
            "gpu.wait [%w]",
            launch.format("") + " dynamic_shared_memory_size %bytes",
        ]
    )
    found = calls(run_body(tmp_path, lines, "%n: index, %bytes: i32"))
    assert found.count("mgpuLaunchKernel") == 4


def test_a_token_with_two_consumers_makes_two_streams(tmp_path: Path) -> None:
    """Upstream would go on in one stream twice and destroy it twice."""
    lines = """ %h = memref.alloc(%n) : memref<?xf32>
 %t0 = gpu.wait async
 %d, %t1 = gpu.alloc async [%t0] (%n) : memref<?xf32>
 %t2 = gpu.memcpy async [%t1] %d, %h : memref<?xf32>, memref<?xf32>
 %t3 = gpu.memcpy async [%t1] %h, %d : memref<?xf32>, memref<?xf32>
 gpu.wait [%t2, %t3]"""
    llvm = run_body(tmp_path, lines)
    found = calls(llvm)
    assert found.count("mgpuStreamCreate") == found.count("mgpuStreamDestroy") == 2
    destroyed = re.findall(r"@mgpuStreamDestroy\(ptr (%\w+)\)", llvm)
    assert len(set(destroyed)) == 2
    # What the second stream waits for is recorded right after the allocation, before any copy.
    assert found.index("mgpuEventRecord") < found.index("mgpuMemcpy")


def test_the_host_waits_for_what_followed_a_token(tmp_path: Path) -> None:
    """As with upstream, whose programs wait for the token that their copies depend on."""
    function = """func.func @f(%h: memref<8xf32>, %d: memref<8xf32>) {
 %t = gpu.wait async
 %a = gpu.memcpy async [%t] %d, %h : memref<8xf32>, memref<8xf32>
 %b = gpu.memcpy async [%t] %h, %d : memref<8xf32>, memref<8xf32>
 %c = gpu.memcpy async [%b] %d, %h : memref<8xf32>, memref<8xf32>
 gpu.wait [%t]
 %late = gpu.memcpy async [%a] %d, %h : memref<8xf32>, memref<8xf32>
 return
}"""
    text = f"module attributes {{gpu.container_module}} {{\n{function}\n}}"
    with mlir.context():
        module = mlir.parse(text)
        token_flow.wait_for_followers(module)
        (wait,) = [line for line in mlir.canonical_text(module).splitlines() if "gpu.wait [" in line]
    names = [name.strip() for name in wait[wait.index("[") + 1 : wait.index("]")].split(",")]
    assert len(names) == 3  # the token, the first copy and the third; not the second, which the third follows


def test_the_host_waits_for_copies_that_nothing_else_orders() -> None:
    """Before a launch without tokens, and at a wait whose token nothing uses; not where tokens order."""
    text = """module attributes {gpu.container_module} {
gpu.module @k { gpu.func @k() kernel { gpu.return } }
func.func @f(%h: memref<8xf32>, %d: memref<8xf32>) {
 %c = arith.constant 1 : index
 %t = gpu.wait async
 %a = gpu.memcpy async [%t] %d, %h : memref<8xf32>, memref<8xf32>
 %b = gpu.wait async [%a]
 LAUNCH
 %e = gpu.memcpy async [%b] %h, %d : memref<8xf32>, memref<8xf32>
 %u = gpu.wait async [%e]
 return
}
}"""
    sizes = "blocks in (%c, %c, %c) threads in (%c, %c, %c)"
    for launch, waits in (
        (f"gpu.launch_func @k::@k {sizes}", 2),
        (f"%l = gpu.launch_func async [%b] @k::@k {sizes}", 1),
    ):
        with mlir.context():
            module = mlir.parse(text.replace("LAUNCH", launch))
            token_flow.wait_for_copies(module)
            assert mlir.canonical_text(module).count("gpu.wait [") == waits


def test_tokens_that_upstream_would_mistake_are_refused(tmp_path: Path) -> None:
    """A function that is not known when its caller is compiled need not keep to what we hand over."""
    function = """func.func @f(%g: (!gpu.async.token) -> ()) {
 %t = gpu.wait async
 func.call_indirect %g(%t) : (!gpu.async.token) -> ()
 return
}"""
    text = f"module attributes {{gpu.container_module}} {{\n{PLACEHOLDER}\n{function}\n}}"
    given = {"host": text, "binary.0": bundled(tmp_path)}
    error = failing_step(tmp_path / "host", StepKind.HOST, params(), given, OUTPUTS)
    (found,) = error.diagnostics
    assert found.message == "a gpu token is passed to 'func.call_indirect'"
    assert found.location
    assert "gpu.wait" in error.hint


@pytest.mark.parametrize(
    ("lines", "hint"),
    [
        ('gpu.printf "hi"', "only kernels"),
        ("%d = gpu.alloc (%n) : memref<?xf32, #gpu.address_space<global>>", "left out"),
    ],
)
def test_what_upstream_cannot_lower_has_advice(tmp_path: Path, lines: str, hint: str) -> None:
    text = f"func.func @f(%n: index, %x: f64) {{ {lines}\n return }}"
    given = HostParams(modules=(), offload=Offload.DISPATCH)
    error = failing_step(tmp_path, StepKind.HOST, given, {"host": text}, OUTPUTS)
    assert hint in error.hint


def test_memory_that_upstream_would_abort_on(tmp_path: Path) -> None:
    lines = """ %b = memref.alloc(%n) : memref<?xi1>
 %f = memref.alloc(%n) : memref<?xf32>
 %zero = arith.constant 0 : index
 %v = memref.load %b[%zero] : memref<?xi1>
 memref.store %v, %b[%n] : memref<?xi1>
 %old = memref.generic_atomic_rmw %f[%zero] : memref<?xf32> {
 ^bb0(%x: f32):
  %y = arith.mulf %x, %x : f32
  memref.atomic_yield %y : f32
 }"""
    llvm = run_body(tmp_path, lines)
    assert "store i8" in llvm
    assert "cmpxchg" in llvm


def test_main_without_a_result_ends_with_zero(tmp_path: Path) -> None:
    given = HostParams(modules=(), offload=Offload.DISPATCH)
    llvm = lowered(tmp_path, "func.func @main() { return }", given).text("llvm")
    assert "define i32 @main()" in llvm
    assert "ret i32 0" in llvm


@pytest.mark.parametrize(
    ("text", "signature"),
    [
        ("func.func @main() -> i32 { %c = arith.constant 3 : i32\n return %c : i32 }", "define i32 @main()"),
        ("func.func @main(%x: i32) { return }", "define void @main(i32"),
        (
            "func.func @main() { return } func.func @g() { call @main() : () -> ()\n return }",
            "define void @main()",
        ),
        ("func.func private @main()\nfunc.func @g() { return }", "define void @g()"),
    ],
)
def test_other_mains_stay_as_they_are(tmp_path: Path, text: str, signature: str) -> None:
    given = HostParams(modules=(), offload=Offload.DISPATCH)
    assert signature in lowered(tmp_path, text, given).text("llvm")


def located_inputs(tmp_path: Path, text: str) -> dict[str, bytes | str | Path]:
    (tmp_path / "app.mlir").write_text(text)
    with mlir.context():
        module = mlir.parse(text, source_name=str(tmp_path / "app.mlir"))
        return {"host": mlir.canonical_text(module), "located": mlir.located_text(module)}


def test_what_cannot_be_lowered_points_into_the_users_file(tmp_path: Path) -> None:
    text = (
        "// one\n// two\nfunc.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n  return %x : tensor<4xf32>\n}\n"
    )
    given = HostParams(modules=(), offload=Offload.DISPATCH)
    error = failing_step(tmp_path / "w", StepKind.HOST, given, located_inputs(tmp_path, text), OUTPUTS)
    assert error.diagnostics, error.render()
    location = error.diagnostics[0].location
    assert location is not None
    assert location.file.endswith("app.mlir")
    assert location.line in (3, 4)
    assert error.message.startswith("host code cannot lower ")
    assert "passes" in error.hint
    assert error.stage == "translate host"


def test_a_pipeline_of_the_users_replaces_ours(tmp_path: Path) -> None:
    given = HostParams(modules=(), offload=Offload.DISPATCH, passes="builtin.module(no-such-pass)")
    error = failing_step(tmp_path, StepKind.HOST, given, {"host": "func.func @f() { return }"}, OUTPUTS)
    assert "no-such-pass" in error.render()
    assert error.stage == "lower host"


def test_a_missing_placeholder_is_an_error(tmp_path: Path) -> None:
    error = failing_step(
        tmp_path, StepKind.HOST, params(), {"host": "module {}", "binary.0": bundled(tmp_path)}, OUTPUTS
    )
    assert "no place for the binary of gpu.module @saxpy_kernels" in error.message


@pytest.mark.parametrize("opt_level", [0, 3])
def test_only_programs_with_tasks_mention_their_runtime(tmp_path: Path, opt_level: int) -> None:
    given = HostParams(modules=(), offload=Offload.DISPATCH, opt_level=opt_level)
    plain = lowered(tmp_path / "a", "func.func @f() { return }", given).text("llvm")
    assert "mlirAsyncRuntime" not in plain
    text = "func.func @f() { %t = async.execute { async.yield }\n async.await %t : !async.token\n return }"
    ran = lowered(tmp_path / "b", text, given)
    found = symbols(tmp_path, ran.outputs["object"])
    assert "mlirAsyncRuntimeAwaitToken" in found
    assert not [name for name in found if "coro" in name]
    assert "coro.begin" in ran.text("llvm")
