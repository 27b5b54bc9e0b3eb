"""Helpers for tests that install AnyAccel into a temporary folder and build projects against it
outside the tree.
"""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

SOURCE = pathlib.Path(os.environ["ANYACCEL_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["ANYACCEL_BUILD_DIR"])
# External projects must build without AnyAccel's environment variables.
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith(("ANYACCEL_", "DS_", "Torch_DIR"))}


def run(*command, check=True, **options):
    """Run a command and return a CompletedProcess. Its `stdout` includes standard error unless
    `stderr=subprocess.PIPE` is passed.
    """
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, **options}
    result = subprocess.run(list(map(str, command)), **options)
    if check and result.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}: exit status {result.returncode}\n{result.stdout}{result.stderr or ''}")
    return result


def cached(name):
    match = re.search(rf"^{name}:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M)
    return match.group(1) if match else ""


def install(case):
    """Install AnyAccel for a test class and return a temporary folder and the installation prefix
    in it. Both are removed after the tests of the class.
    """
    folder = pathlib.Path(tempfile.mkdtemp())
    case.addClassCleanup(shutil.rmtree, folder)
    prefix = folder / "prefix with a space"
    # The manifest of a real installation from this build is restored afterwards, because
    # `uninstall` reads it.
    manifest = BUILD / "install_manifest.txt"
    kept = manifest.read_bytes() if manifest.exists() else None
    if kept is not None:
        case.addClassCleanup(manifest.write_bytes, kept)
    run("cmake", "--install", BUILD, "--prefix", prefix)
    return folder, prefix


def configure(source, build, prefix, *options, check=True):
    sanitize = cached("ANYACCEL_SANITIZE")
    flags = [f"-DCMAKE_CXX_FLAGS={'-fsanitize=' + sanitize if sanitize else ''}"]
    if cached("ANYACCEL_CCACHE").startswith("/"):
        flags.append(f"-DCMAKE_CXX_COMPILER_LAUNCHER={cached('ANYACCEL_CCACHE')}")
    return run("cmake", "-S", source, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", *flags, *options,
               check=check, env=build_environment(prefix))


def build_environment(prefix):
    """Return variables that make ccache use paths relative to the test's folder, so that it finds the
    results of earlier runs in other folders.
    """
    return {**ENVIRONMENT, "CCACHE_BASEDIR": str(pathlib.Path(prefix).parent), "CCACHE_NOHASHDIR": "1"}


def build(folder, prefix):
    return run("cmake", "--build", folder, env=build_environment(prefix))
