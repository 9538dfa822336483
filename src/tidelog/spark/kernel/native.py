"""Machine code of loops written for numba: from the cache on disk, else compiled and cached.

numba compiles; the result is kept as a plain object file and loaded by llvmlite alone, in a tenth of the time
that importing numba takes. That matters: every Python worker of Spark is a new process, and a query on a
small topic ends before numba would be imported.

The file's name contains everything the code depends on (its sources, numba, LLVM, the processor), so a stale
one is never loaded. It is beside its source or, if that is not writable, in ``NUMBA_CACHE_DIR``, in the
user's cache directory, or in the directory for temporary files, the first that is.

The writer of such a file decides what this process does. So it is loaded only if it and its directory
belong to this user or to the owner of the package, and if others cannot write to them. The directory below
the one for temporary files has a name that any user can guess, and make first.
"""

import ctypes
import hashlib
import os
import platform
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

Loop = Callable[[int], int]
"""Takes the address of an array of 64-bit numbers (arguments and results) and returns one."""

_HERE = Path(__file__).parent
_PREFIX = "tidelog_"
_GROUP, _OTHERS = stat.S_IWGRP, stat.S_IWOTH

# numba's calling convention: where to put the result, where to put an exception (there are none), the
# argument; the return value says whether one was raised.
_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


def load(module: str, names: Sequence[str], uses: Sequence[str] = ()) -> list[Loop]:
    """These functions of a module, each compiled by numba as ``int64(int64)`` without exceptions.

    ``uses`` are further modules whose text the code depends on.
    """
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    sources = [_source(one) for one in (module, *uses)]
    name = f"{module.rpartition('.')[2]}-{_fingerprint(sources)}.o"
    for directory in _directories(sources[0].parent):
        if (code := _kept(directory, name)) is not None:
            return _linked(code, names)
    code = _compile(module, names)
    any(_keep(directory, name, code) for directory in _directories(sources[0].parent))
    return _linked(code, names)


# -- code to functions ---------------------------------------------------------------


def _linked(code: bytes, names: Sequence[str]) -> list[Loop]:
    empty = llvm.parse_assembly("")
    empty.triple = llvm.get_process_triple()
    engine = llvm.create_mcjit_compiler(empty, _target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return [_function(engine, name) for name in names]


def _function(engine: Any, name: str) -> Loop:
    function = _FUNCTION(engine.get_function_address(_PREFIX + name))
    result = ctypes.c_int64()
    nothing = ctypes.c_void_p()
    into, no_exception = ctypes.addressof(result), ctypes.addressof(nothing)

    def call(told: int) -> int:
        function(into, no_exception, told)
        return result.value

    # The code is unmapped with its engine, and the two numbers must outlive the call.
    call.kept = (engine, nothing)  # type: ignore[attr-defined]
    return call


def _target_machine() -> Any:
    """A new one each time: an engine owns it, and frees it with itself."""
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        reloc="pic",
        codemodel="jitdefault",
        jit=True,
    )


def _compile(module: str, names: Sequence[str]) -> bytes:
    """One object file with all the functions; everything else in it stays private."""
    loops = import_module(module)
    together = llvm.parse_assembly("")
    for name in names:
        loop = getattr(loops, name)
        (signature,) = loop.signatures
        part = llvm.parse_assembly(loop.inspect_llvm(signature))
        symbol = loop.overloads[signature].fndesc.llvm_func_name
        for function in part.functions:
            if function.name == symbol:
                function.name = _PREFIX + name
            elif not function.is_declaration:
                function.linkage = "internal"
        together.link_in(part)
    together.triple = llvm.get_process_triple()
    return bytes(_target_machine().emit_object(together))


# -- the cache on disk ---------------------------------------------------------------


def _source(module: str) -> Path:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ImportError(f"{module} has no source")
    return Path(spec.origin)


def _fingerprint(sources: Sequence[Path]) -> str:
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for source in sources:
        digest.update(source.read_bytes())
    facts = (
        version("numba"),
        version("llvmlite"),
        platform.machine(),
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
    )
    digest.update("\n".join(facts).encode())
    return digest.hexdigest()[:24]


def _directories(beside: Path) -> Iterator[Path]:
    yield beside / "__pycache__"
    if given := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(given)
    yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidelog"
    yield Path(tempfile.gettempdir()) / f"tidelog-{os.getuid()}"


def _is_trusted(status: os.stat_result, writers: int) -> bool:
    """``writers``: bits of the mode that only the owner may have."""
    return status.st_uid in (os.getuid(), _HERE.stat().st_uid) and not status.st_mode & writers


def _is_trusted_directory(directory: Path) -> bool:
    # A package that is installed for a group may be written by it: its source files can be as well.
    beside = directory.name == "__pycache__"
    try:
        status = directory.stat() if beside else directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and _is_trusted(status, _OTHERS if beside else _GROUP | _OTHERS)


def _kept(directory: Path, name: str) -> bytes | None:
    if not _is_trusted_directory(directory):
        return None
    try:
        # Not a link, and looked at after it was opened: in between, it could be replaced.
        descriptor = os.open(directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not _is_trusted(status, _OTHERS):
            return None
        return file.read()


def _keep(directory: Path, name: str, code: bytes) -> bool:
    """Written aside and then renamed: another worker may be about to load it."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_trusted_directory(directory):
            return False
        aside = directory / f"{name}.{os.getpid()}"
        aside.write_bytes(code)
        aside.replace(directory / name)
    except OSError:
        return False
    return True
