"""Make the library of compiled kernels that a platform's wheel brings, and `make install` puts beside the sources.

Usage: python tools/native_kernels.py [--out FILE]     (nothing is compiled if the sources have not changed)

Role.   numba compiles every kernel for the least processor we support, LLVM emits one object, the C compiler's linker makes
        a shared library of it. `semel.core.records.native` finds it there.
Flow.   `hatch_build.py` runs it for a wheel, `make install` for the sources. Exit code 2, with one line: not on this machine;
        kernels are then compiled by numba when they are first needed.
Rules.  * The library needs nothing but memcpy, memset and the buffer protocol of Python's stable ABI (3.11): one library
          serves every Python and every libc.
        * A kernel that could raise is refused: there would be nobody to tell.
        * The library is replaced as a whole: a process that has the old one open keeps it.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

SRC: Final = Path(__file__).parents[1] / "src"
PROCESSORS: Final = {"x86_64": "x86-64-v2"}  # One more where somebody runs the tests on it.
_ALLOWED: Final = {"PyObject_GetBuffer", "PyBuffer_Release", "memcpy", "memset"}
_ADDRESS: Final = """
declare i32 @PyObject_GetBuffer(ptr, ptr, i32)
declare void @PyBuffer_Release(ptr)

define i64 @semel_address(ptr %object) {
  %buffer = alloca [10 x i64], align 16
  %refused = call i32 @PyObject_GetBuffer(ptr %object, ptr %buffer, i32 0)
  %is_refused = icmp ne i32 %refused, 0
  br i1 %is_refused, label %error, label %found
error:
  ret i64 -1
found:
  %address = load i64, ptr %buffer
  call void @PyBuffer_Release(ptr %buffer)
  ret i64 %address
}
"""


class NotHereError(Exception):
    """Why this machine cannot make the library."""


def build(out: Path) -> bool:
    """Make the library at `out`, or copy the one beside the sources if it is made of them; whether anything was compiled."""
    sys.path.insert(0, str(SRC))
    from semel.core.records import native

    if (made := native.library()) is not None:
        if Path(made) != out:
            shutil.copy(made, out)
        return False
    compiler = obstacle_or_compiler()
    os.environ["NUMBA_CPU_NAME"] = PROCESSORS[platform.machine()]
    os.environ["NUMBA_CPU_FEATURES"] = ""
    native.library = lambda: None  # type: ignore[assignment]  # Kernels are wanted as Python here.
    machine_code = _object_code()
    with tempfile.TemporaryDirectory(dir=out.parent) as folder:
        compiled = Path(folder) / "kernels.o"
        linked = Path(folder) / "kernels.so"
        compiled.write_bytes(machine_code)
        options = ["-shared", "-nostdlib", "-Wl,--build-id=none", "-Wl,-z,noexecstack", "-Wl,--strip-all"]
        done = subprocess.run(
            [compiler, *options, "-o", linked, compiled], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise NotHereError(f"{compiler} cannot link a shared library: {done.stderr.strip()}")
        linked.chmod(0o755)
        linked.replace(out)
    return True


def obstacle_or_compiler() -> str:
    """The C compiler to link with; raises `NotHereError`."""
    if find_spec("numba") is None:
        raise NotHereError("numba is not installed")
    if sys.platform != "linux" or platform.machine() not in PROCESSORS:
        raise NotHereError(f"there is no library for {sys.platform} on {platform.machine()}")
    for name in (os.environ.get("CC") or "cc", "gcc", "clang"):
        if found := shutil.which(name):
            return found
    raise NotHereError("no C compiler (cc) to link with")


def _object_code() -> bytes:
    import llvmlite.binding as llvm

    from semel.core.records import native

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple = llvm.get_process_triple()
    target = llvm.Target.from_triple(triple).create_target_machine(
        cpu=PROCESSORS[platform.machine()], opt=3, reloc="pic", codemodel="default"
    )
    whole = _parsed(f"@{native.symbol_of(native.fingerprint())} = constant i8 1\n{_ADDRESS}", triple, target)
    public = {"semel_address", native.symbol_of(native.fingerprint())}
    for kernel in all_kernels():
        whole.link_in(_module(kernel, triple, target))
        public.add(kernel.name)
    builder = llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=3))
    for thing in (*whole.functions, *whole.global_variables):
        if not thing.is_declaration and thing.name not in public:
            thing.linkage = "internal"
    builder.getModulePassManager().run(whole, builder)
    for function in whole.functions:
        needed = function.is_declaration and not function.name.startswith("llvm.")
        if function.name == "llvm.trap" or (needed and function.name not in _ALLOWED):
            raise SystemExit(
                f"a kernel uses {function.name}: it could raise an exception, and nobody would see it"
            )
    machine_code: bytes = target.emit_object(whole)
    return machine_code


def _module(kernel: Any, triple: str, target: Any) -> Any:
    """The kernel as numba compiles it, under its own name and with C's calling convention."""
    from numba import njit

    from semel.core.records import jit

    jit.prepare()
    arguments = [f"i64 %{index}" for index in range(kernel.function.__code__.co_argcount)]
    (made,) = njit(jit.LONG(*[jit.LONG] * len(arguments)), **jit.OPTIONS)(kernel.function).overloads.values()
    plain = ", ".join(arguments)
    entry = f"""
declare void @llvm.trap()

define i64 @{kernel.name}({plain}) {{
begin:
  %result = alloca i64
  %exception = alloca ptr
  %status = call i32 @"{made.fndesc.llvm_func_name}"(ptr %result, ptr %exception, {plain})
  %has_raised = icmp ne i32 %status, 0
  br i1 %has_raised, label %raised, label %returned
raised:
  call void @llvm.trap()
  unreachable
returned:
  %value = load i64, ptr %result
  ret i64 %value
}}
"""
    found = _parsed(f"{made.library._final_module}\n{entry}", triple, target)
    for thing in (*found.functions, *found.global_variables):
        if not thing.is_declaration and thing.name != kernel.name:
            thing.linkage = "internal"
    return found


def _parsed(text: str, triple: str, target: Any) -> Any:
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(text)
    module.triple = triple
    module.data_layout = str(target.target_data)
    module.verify()
    return module


def all_kernels() -> list[Any]:
    """Every kernel there is."""
    from semel.runtime.kernel_cache import KERNEL_MODULES, kernels_of

    return kernels_of(KERNEL_MODULES)


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the library of compiled kernels.")
    parser.add_argument("--out", type=Path, default=SRC / "semel" / "core" / "records" / "semel_kernels.so")
    out: Path = parser.parse_args().out
    try:
        is_new = build(out)
    except NotHereError as error:
        print(f"no library of kernels: {error}; numba compiles them when they are first needed")
        sys.exit(2)
    if is_new:
        print(f"kernels for {PROCESSORS[platform.machine()]} in {out}")


if __name__ == "__main__":
    main()
