"""Processors that QEMU emulates, and the check that a program really runs on the requested one."""
import dataclasses

# Bits of AT_HWCAP and AT_HWCAP2, in the kernel's order (arch/arm64/include/uapi/asm/hwcap.h).
HWCAP = ("fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm jscvt fcma lrcpc dcpop sha3 sm3 sm4 asimddp "
         "sha512 sve asimdfhm dit uscat ilrcpc flagm ssbs sb paca pacg").split()
HWCAP2 = ("dcpodp sve2 sveaes svepmull svebitperm svesha3 svesm4 flagm2 frint svei8mm svef32mm svef64mm svebf16 i8mm bf16 dgh rng bti "
          "mte ecv afp rpres").split()
# The instruction sets for which kernels may have variants of their own.
CHECKED = ("asimd", "asimddp", "i8mm", "bf16", "sve")


@dataclasses.dataclass(frozen=True)
class Processor:
    """A processor. `cpu` is QEMU's name and properties, `has` is the subset of CHECKED that the
    processor supports, and `sve_bits` is the length of an SVE vector, or 0. `part` is the part
    number in MIDR_EL1, with `implementer` 0x41 for Arm and 0x46 for Fujitsu."""

    name: str
    cpu: str
    has: frozenset
    sve_bits: int
    implementer: int
    part: int
    what: str


def _processor(name, cpu, has, sve_bits, part, what, implementer=0x41):
    return Processor(name, cpu, frozenset(has.split()), sve_bits, implementer, part, what)


# QEMU 7.2 has no property that selects i8mm without bf16. The part numbers of `max` are those of
# the processors that it stands for; QEMU itself reports 0x51.
PROCESSORS = (
    _processor("neon", "cortex-a57", "asimd", 0, 0xd07, "NEON only (Cortex-A57)"),
    _processor("dotprod", "neoverse-n1", "asimd asimddp", 0, 0xd0c, "NEON with dot product (Neoverse N1)"),
    _processor("i8mm-bf16", "max,sve=off,sme=off", "asimd asimddp i8mm bf16", 0, 0xd40, "NEON with dot product, i8mm and bf16"),
    _processor("sve128", "max,sme=off,sve-max-vq=1", "asimd asimddp i8mm bf16 sve", 128, 0xd4f, "all of these, and SVE2 with 128 bits"),
    _processor("sve256", "max,sme=off,sve-max-vq=2", "asimd asimddp i8mm bf16 sve", 256, 0xd40, "all of these, and SVE2 with 256 bits"),
    _processor("sve512", "max,sme=off,sve-max-vq=4", "asimd asimddp i8mm bf16 sve", 512, 0xd40, "all of these, and SVE2 with 512 bits"),
    _processor("a64fx", "a64fx", "asimd sve", 512, 0x001, "SVE with 512 bits, without dot product (A64FX)", implementer=0x46),
)
# The processor for parts that do not run on every processor.
DEFAULT = "sve256"


def find(name):
    """Return the processor with this name. Raises KeyError."""
    return {processor.name: processor for processor in PROCESSORS}[name]


def flags(hwcap, hwcap2):
    """Return the names of the bits that are set, as in the line Features of /proc/cpuinfo."""
    return [name for bits, names in ((hwcap, HWCAP), (hwcap2, HWCAP2)) for place, name in enumerate(names) if bits >> place & 1]


def parse_report(text):
    """Return the pairs `name=value` that the program tests/cross/processor.cpp prints, as integers."""
    return {name: int(value, 0) for name, value in (word.split("=", 1) for word in text.split())}


def problem(processor, report):
    """Return how the emulated processor differs from the requested one, or an empty string."""
    has = frozenset(flags(report["hwcap"], report["hwcap2"])) & frozenset(CHECKED)
    if has != processor.has:
        return f"got {' '.join(sorted(has))}, expected {' '.join(sorted(processor.has))}"
    if report["sve_bits"] != processor.sve_bits:
        return f"got SVE vectors of {report['sve_bits']} bits, expected {processor.sve_bits}"
    return ""


def cpuinfo(processor, features, count):
    """Return the text of /proc/cpuinfo on an ARM machine with `count` cores."""
    core = (f"BogoMIPS\t: 2000.00\nFeatures\t: {' '.join(features)}\nCPU implementer\t: {processor.implementer:#04x}\nCPU architecture: 8\n"
            f"CPU variant\t: 0x0\nCPU part\t: {processor.part:#05x}\nCPU revision\t: 1\n")
    return "".join(f"processor\t: {number}\n{core}\n" for number in range(count))


def midr(processor):
    """Return the value of the register MIDR_EL1: implementer, architecture 15, part, revision 1."""
    return processor.implementer << 24 | 0xf << 16 | processor.part << 4 | 1
