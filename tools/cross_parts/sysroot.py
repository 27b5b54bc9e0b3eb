"""The folder with the libraries and files that cross-compiled programs need.

Debian's packages are downloaded with a private state of apt, so the packages and the architectures
of this machine do not change.
"""
import glob
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRIPLET = "aarch64-linux-gnu"
GTEST_PACKAGES = ("libgtest-dev", "libgmock-dev")
LIBRARY_PACKAGES = ("libhwloc-dev", "libonig-dev", "libicu-dev", "libcli11-dev", "nlohmann-json3-dev")
# The cross compiler supplies these, or a cross build does not use them.
SUPPLIED = ("libc6 libc6-dev libgcc-s1 libstdc++6 libgomp1 libcrypt1 libcap2 libltdl7 libltdl-dev libnuma-dev dpkg perl perl-base "
            "autotools-dev automake icu-devtools").split()
# Name, version or None for tools/setup's, platform, size in MB. LibTorch for ARM servers is a CUDA
# build, whose CPU library links the other two.
WHEELS = (("torch", None, "manylinux_2_28_aarch64", 427), ("nvidia-cuda-runtime", "13.5.37", "manylinux2014_aarch64", 3),
          ("nvidia-cuda-cupti", "13.5.25", "manylinux_2_25_aarch64", 12))
# Parts of the wheels that the CPU does not use.
UNUSED = re.compile(r"torch/lib/(libtorch_cuda|libcaffe2_nvrtc|libc10_cuda)|torch/lib/libtorch_python|torch/_C|\.py[ic]?$|^functorch/|^torchgen/|^torch/bin/")


class CannotSetUp(Exception):
    """Something that the cross build needs is missing."""


def torch_version():
    """Return the version of torch that tools/setup installs."""
    return re.search(r"^torch_pin=(\S+)$", (ROOT / "tools/setup").read_text(), re.M).group(1)


def apt_configuration(folder):
    """Return a configuration that keeps all of apt's state in `folder` and selects arm64. The
    sources and the keys are this machine's."""
    return (f'APT::Architecture "arm64";\nAPT::Architectures {{ "arm64"; }};\nAPT::Install-Recommends "false";\nAPT::Sandbox::User "";\n'
            f'Acquire::Languages "none";\nDir::State "{folder}/state";\nDir::State::status "{folder}/status";\nDir::Cache "{folder}/cache";\n'
            f'Dir::Log "{folder}/log";\n')


def dpkg_status(names):
    """Return a list of installed packages for apt. The version is higher than any dependency asks
    for."""
    return "".join(f"Package: {name}\nStatus: install ok installed\nArchitecture: arm64\nMulti-Arch: allowed\nMaintainer: none\n"
                   f"Description: supplied by the cross compiler\nVersion: 99\n\n" for name in names)


def download_packages(names, folder):
    """Download Debian packages for arm64 and the packages on which they depend. Return the files."""
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise CannotSetUp(f"{program} is not available. The packages for arm64 come from Debian or Ubuntu.")
    for name in ("state/lists/partial", "cache/archives/partial", "log"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "status").write_text(dpkg_status(SUPPLIED))
    configuration = folder / "apt.conf"
    configuration.write_text(apt_configuration(folder))
    environment = {**os.environ, "APT_CONFIG": str(configuration), "DEBIAN_FRONTEND": "noninteractive"}
    archives = folder / "cache/archives"
    for old in archives.glob("*.deb"):
        old.unlink()
    # `update` also fails if a single source of this machine does not offer arm64.
    updated = subprocess.run(["apt-get", "-q", "update"], env=environment, capture_output=True, text=True)
    done = subprocess.run(["apt-get", "-q", "-y", "install", "--download-only", *names], env=environment, capture_output=True, text=True)
    if done.returncode:
        lines = (updated.stderr + done.stdout + done.stderr).strip().splitlines()
        raise CannotSetUp("apt-get could not download packages for arm64: " + " / ".join(lines[-3:]) +
                          ". The package sources of this machine must offer arm64.")
    return sorted(archives.glob("*.deb"))


def install_packages(names, root, folder):
    """Unpack packages into the sysroot, unless an earlier run did."""
    stamp = root / ".packages"
    wanted = sorted({*names, *(stamp.read_text().split() if stamp.exists() else [])})
    if stamp.exists() and wanted == stamp.read_text().split():
        return
    print(f"cross: downloading packages for arm64: {' '.join(wanted)} (up to 22 MB)", flush=True)
    for package in download_packages(wanted, folder):
        subprocess.run(["dpkg-deb", "-x", package, root], check=True)
    stamp.write_text("\n".join(wanted) + "\n")


def copy_c_library(root):
    """Link the cross compiler's runtime libraries, where the emulated loader looks for them."""
    for source in sorted(pathlib.Path(f"/usr/{TRIPLET}/lib").rglob("*")):
        target = root / "lib" / source.relative_to(f"/usr/{TRIPLET}/lib")
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_file() and not target.is_symlink():
            target.symlink_to(source)


def copy_caches(root, count):
    """Describe `count` cores with the caches of this machine's first core. Programs read these files
    at start-up, and LibTorch crashes without them."""
    for number in range(count):
        cpu = root / f"sys/devices/system/cpu/cpu{number}"
        (cpu / "regs/identification").mkdir(parents=True, exist_ok=True)
        for index in glob.glob("/sys/devices/system/cpu/cpu0/cache/index*"):
            target = cpu / "cache" / pathlib.Path(index).name
            target.mkdir(parents=True, exist_ok=True)
            for file in pathlib.Path(index).iterdir():
                if file.is_file() and os.access(file, os.R_OK):
                    (target / file.name).write_text(file.read_text())
            (target / "shared_cpu_list").write_text(f"{number}\n")


def download_wheels(folder):
    """Download the wheels that are missing from `folder`, and print their sizes first."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, version, platform, size in WHEELS:
        version = version or torch_version()
        pattern = f"{name.replace('-', '_')}-{version}-*{platform.split('_')[0]}*aarch64.whl"
        if not list(folder.glob(pattern)):
            print(f"cross: downloading {name} {version} for aarch64 ({size} MB)", flush=True)
            done = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--python-version", "3.11",
                                   "--platform", platform, "--dest", folder, f"{name}=={version}"], capture_output=True, text=True)
            if done.returncode:
                raise CannotSetUp(f"pip could not download {name} {version} for {platform}: {done.stderr.strip().splitlines()[-1:]}")
        files += folder.glob(pattern)
    return files


def install_torch(folder, wheels):
    """Unpack LibTorch's headers and CPU libraries, unless an earlier run did."""
    files = download_wheels(wheels)
    stamp = folder / ".wheels"
    names = "\n".join(file.name for file in files)
    if stamp.exists() and stamp.read_text() == names:
        return
    shutil.rmtree(folder, ignore_errors=True)
    for file in files:
        with zipfile.ZipFile(file) as wheel:
            wheel.extractall(folder, [name for name in wheel.namelist() if not UNUSED.search(name)])
    libraries = folder / "torch/lib"
    # The wheel's libtorch.so loads the CUDA library, which needs 3 GB of other packages.
    subprocess.run([f"{TRIPLET}-gcc", "-shared", "-o", libraries / "libtorch.so", "-Wl,-soname,libtorch.so,--no-as-needed,--allow-shlib-undefined",
                    "-Wl,-rpath,$ORIGIN", f"-L{libraries}", "-ltorch_cpu", "-lc10"], check=True)
    stamp.write_text(names)
