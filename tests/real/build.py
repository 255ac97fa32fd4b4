"""The model servers, built once from the sources that the package index has, and kept in the user's
cache.

The sdist of `llama-cpp-python` carries all of llama.cpp. Its version is fixed here, so that a check
that fails does so because of us; another version gets a folder of its own.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path

LLAMA_CPP_PYTHON = "0.3.36"
GGUF = "0.19.0"


def _off(*names: str) -> list[str]:
    return [f"-D{name}=OFF" for name in names]


# A model of a few kilobytes needs no speed: without optimisation the build takes half the time.
SETTINGS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DLLAMA_BUILD_NUMBER=0",
    "-DCMAKE_C_FLAGS_RELEASE='-O0 -DNDEBUG'",
    "-DCMAKE_CXX_FLAGS_RELEASE='-O0 -DNDEBUG'",
    *_off(
        "LLAMA_OPENSSL",
        "LLAMA_SUBPROCESS",
        "GGML_NATIVE",
        "GGML_OPENMP",
        "GGML_LLAMAFILE",
        "GGML_CCACHE",
    ),
    *_off("GGML_CUDA", "GGML_BLAS", "GGML_METAL"),
)
OF_SERVER = (
    *_off(
        "BUILD_SHARED_LIBS",
        "LLAMA_BUILD_TESTS",
        "LLAMA_BUILD_EXAMPLES",
        "LLAMA_BUILD_APP",
        "LLAMA_BUILD_UI",
    ),
    *_off("LLAMA_USE_PREBUILT_UI"),
    "-DLLAMA_BUILD_COMMON=ON",
    "-DLLAMA_BUILD_TOOLS=ON",
    "-DLLAMA_BUILD_SERVER=ON",
)
OF_BINDINGS = _off("LLAVA_BUILD")


def cache() -> Path:
    """Return the folder in the user's cache that is kept between runs, made if need be."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    folder = (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "rungwise" / "real"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def llama_server() -> Path:
    """Return the path of `llama-server`, after building it where it is not there yet: some 10
    minutes on two cores.

    Raises:
        SystemExit: cmake is missing, or the build failed; its log is named.
    """
    with _made_once(cache() / f"llama-server-{LLAMA_CPP_PYTHON}") as folder:
        if folder is not None:
            _build(folder)
    return cache() / f"llama-server-{LLAMA_CPP_PYTHON}" / "llama-server"


def gguf_python() -> Path:
    """Return the Python of an environment of its own that has `gguf` and numpy, which write a
    model.
    """
    return _python_with(f"gguf-{GGUF}", f"gguf=={GGUF}")


def bindings_python() -> Path:
    """Return the Python of an environment of its own that has `llama_cpp.server`, built there where
    it is not yet.
    """
    name = f"llama-cpp-python-{LLAMA_CPP_PYTHON}"
    own = ("--no-binary", "llama-cpp-python", f"llama-cpp-python[server]=={LLAMA_CPP_PYTHON}")
    return _python_with(name, *own, settings=(*SETTINGS, *OF_BINDINGS))


def _python_with(name: str, *packages: str, settings: Sequence[str] = ()) -> Path:
    """Return the Python of an environment that is kept under a name, after installing packages of
    the index there.

    Arguments:
        name: the environment's, as a folder.
        packages: what pip is to install, with its options.
        settings: for cmake, where something is built.

    Raises:
        SystemExit: pip failed; its log is named.
    """
    python = cache() / name / "bin" / "python"
    with _made_once(python.parent.parent) as folder:
        if folder is not None:
            print(f"installing {name} once; what is built takes a while", flush=True)
            venv.create(folder, with_pip=True, clear=True)
            _run(
                [str(python), "-m", "pip", "install", "-q", *packages],
                name,
                CMAKE_ARGS=" ".join(settings),
            )
    return python


def _build(folder: Path) -> None:
    if shutil.which("cmake") is None:
        raise SystemExit(
            "cmake is not on the PATH: it and a C++ compiler are needed to build llama-server"
        )
    with tempfile.TemporaryDirectory(prefix="rungwise-llama-") as scratch:
        print(f"building llama-server {LLAMA_CPP_PYTHON} once; this takes a while", flush=True)
        sources = _sources(Path(scratch))
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        build = Path(scratch) / "build"
        # no shell takes the quotes off
        settings = [setting.replace("'", "") for setting in (*SETTINGS, *OF_SERVER)]
        _run(["cmake", "-S", str(sources), "-B", str(build), *generator, *settings], "cmake")
        _run(
            [
                "cmake",
                "--build",
                str(build),
                "--target",
                "llama-server",
                "--parallel",
                str(os.cpu_count() or 1),
            ],
            "build",
        )
        shutil.copy2(build / "bin" / "llama-server", folder / "llama-server")


def _sources(scratch: Path) -> Path:
    wanted = f"llama-cpp-python=={LLAMA_CPP_PYTHON}"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--no-binary",
        ":all:",
        "-d",
        str(scratch),
    ]
    _run([*pip, wanted], "sources")
    [archive] = scratch.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(scratch, filter="data")
    [sources] = scratch.glob("*/vendor/llama.cpp")
    return sources


def _run(command: Sequence[str], name: str, **environment: str) -> None:
    """Run a command politely, with what it says in a log in the cache."""
    log = cache() / f"{name}.log"
    with log.open("w") as said:
        code = subprocess.run(
            ["nice", *command],
            stdout=said,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            check=False,
        ).returncode
    if code:
        raise SystemExit(f"{name} failed with exit code {code}: see {log}")


@contextlib.contextmanager
def _made_once(folder: Path) -> Iterator[Path | None]:
    """Give a place to fill where a folder was not completed yet, and mark it complete when all went
    well.
    """
    mark = folder / "complete"
    if mark.exists():
        yield None
        return
    folder.mkdir(parents=True, exist_ok=True)
    yield folder
    mark.touch()
