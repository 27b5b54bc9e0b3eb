#include "base/plugin/library_check.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace anyaccel {

namespace {

using Header = ElfW(Ehdr);
using Segment = ElfW(Phdr);

struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

bool read_at(int file, void* out, std::size_t bytes, std::uint64_t offset) {
  return ::pread(file, out, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

const char* machine_name(unsigned machine) {
  switch (machine) {
    case EM_X86_64: return "x86-64";
    case EM_AARCH64: return "aarch64";
    case EM_PPC64: return "ppc64";
    case EM_RISCV: return "RISC-V";
    case EM_386: return "x86, 32 bits";
    default: return "an unknown machine";
  }
}

/// Returns the ELF machine type of this program. <elf.h> does not define a macro for it.
unsigned own_machine() {
#if defined(__x86_64__)
  return EM_X86_64;
#elif defined(__aarch64__)
  return EM_AARCH64;
#elif defined(__powerpc64__)
  return EM_PPC64;
#elif defined(__riscv)
  return EM_RISCV;
#else
  return EM_NONE;
#endif
}

std::string header_problem(const Header& header) {
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return "it is not an ELF file, so it is not a shared library";
  if (header.e_ident[EI_CLASS] != (sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32) ||
      header.e_ident[EI_DATA] !=
          (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB) ||
      (own_machine() != EM_NONE && header.e_machine != own_machine()))
    return std::string("it was built for a different machine type: ") +
           machine_name(header.e_machine) + "; this machine is " + machine_name(own_machine());
  if (header.e_type != ET_DYN) return "it is an ELF file but not a shared library";
  if (header.e_phentsize != sizeof(Segment) || header.e_phnum == 0)
    return "it is an ELF file without segments";
  return {};
}

std::string segments_problem(int file, const Header& header, std::uint64_t size) {
  bool dynamic = false;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Segment segment;
    if (!read_at(file, &segment, sizeof segment, header.e_phoff + i * sizeof segment))
      return "it is truncated";
    dynamic = dynamic || segment.p_type == PT_DYNAMIC;
    if (segment.p_type != PT_LOAD) continue;
    if (segment.p_offset > size || segment.p_filesz > size - segment.p_offset)
      return "it is truncated: it has " + std::to_string(size) + " bytes, but needs at least " +
             std::to_string(segment.p_offset + segment.p_filesz);
  }
  return dynamic ? std::string() : "it is an ELF file but not a shared library";
}

}  // namespace

std::string library_problem(const std::filesystem::path& path) noexcept try {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat info {};
  if (file.number < 0 || ::fstat(file.number, &info) != 0)
    return std::string("it cannot be read: ") + std::strerror(errno);
  if (!S_ISREG(info.st_mode)) return "it is not a regular file";
  Header header{};
  if (!read_at(file.number, &header, sizeof header, 0))
    return "it is not an ELF file, so it is not a shared library";
  if (auto problem = header_problem(header); !problem.empty()) return problem;
  return segments_problem(file.number, header, static_cast<std::uint64_t>(info.st_size));
} catch (...) {
  return "it cannot be read";
}

}  // namespace anyaccel
