"""AnyAccel installed into a temporary folder, projects built against it outside the tree, and facts
about the tests' own build.
"""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

SOURCE = pathlib.Path(os.environ["ANYACCEL_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["ANYACCEL_BUILD_DIR"])
# An external project does not have our environment.
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith(("ANYACCEL_", "DS_", "Torch_DIR"))}


def run(*command, check=True, **options):
    """Run a command. Its output is in stdout; stderr is separate only with
    `stderr=subprocess.PIPE`.
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
    """Install for a test class and return (its folder, the prefix in it). Both are removed with the
    class.
    """
    folder = pathlib.Path(tempfile.mkdtemp())
    case.addClassCleanup(shutil.rmtree, folder)
    prefix = folder / "prefix with a space"
    # `uninstall` must still read the manifest of a real install from this build.
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
    """With ccache, use paths relative to the test's folder, so that the next test's folder gets the
    same results.
    """
    return {**ENVIRONMENT, "CCACHE_BASEDIR": str(pathlib.Path(prefix).parent), "CCACHE_NOHASHDIR": "1"}


def build(folder, prefix):
    return run("cmake", "--build", folder, env=build_environment(prefix))
