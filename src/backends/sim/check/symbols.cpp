#include "backends/sim/check/symbols.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

namespace anyaccel::backends::sim::checking {

namespace {

/// A memory-mapped file. All reads are bounds-checked.
class Mapped {
 public:
  explicit Mapped(const std::string& file) {
    const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return;
    struct stat status = {};
    if (::fstat(descriptor, &status) == 0 && status.st_size > 0) {
      size_ = static_cast<std::size_t>(status.st_size);
      void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
      if (data != MAP_FAILED) data_ = static_cast<const char*>(data);
    }
    ::close(descriptor);
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  ~Mapped() {
    if (data_ != nullptr) ::munmap(const_cast<char*>(data_), size_);
  }

  template <typename Type>
  const Type* at(std::uint64_t offset, std::uint64_t count = 1) const {
    if (data_ == nullptr || offset > size_ || count > (size_ - offset) / sizeof(Type))
      return nullptr;
    if (offset % alignof(Type) != 0) return nullptr;
    return reinterpret_cast<const Type*>(data_ + offset);
  }
  std::string text(std::uint64_t offset) const {
    if (data_ == nullptr || offset >= size_) return {};
    return {data_ + offset, ::strnlen(data_ + offset, size_ - offset)};
  }

 private:
  const char* data_ = nullptr;
  std::size_t size_ = 0;
};

/// The address in the file that corresponds to the loader's base address: that of the first loaded
/// segment.
std::uint64_t first_address(const Mapped& file, const Elf64_Ehdr& header) {
  const auto* parts = file.at<Elf64_Phdr>(header.e_phoff, header.e_phnum);
  for (int i = 0; parts != nullptr && i < header.e_phnum; ++i)
    if (parts[i].p_type == PT_LOAD) return parts[i].p_vaddr - parts[i].p_offset;
  return 0;
}

}  // namespace

Symbol symbol_in_file(const std::string& name, std::uintptr_t address) {
  const Mapped file(name);
  const auto* header = file.at<Elf64_Ehdr>(0);
  if (header == nullptr || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64)
    return {};
  const auto* sections = file.at<Elf64_Shdr>(header->e_shoff, header->e_shnum);
  const auto base = first_address(file, *header);
  for (int i = 0; sections != nullptr && i < header->e_shnum; ++i) {
    const auto& table = sections[i];
    if (table.sh_type != SHT_SYMTAB || table.sh_link >= header->e_shnum) continue;
    const auto count = table.sh_size / sizeof(Elf64_Sym);
    const auto* symbols = file.at<Elf64_Sym>(table.sh_offset, count);
    for (std::uint64_t s = 0; symbols != nullptr && s < count; ++s) {
      if (symbols[s].st_shndx == SHN_UNDEF) continue;
      const auto start = symbols[s].st_value - base;
      if (ELF64_ST_TYPE(symbols[s].st_info) == STT_FUNC && address >= start &&
          address < start + symbols[s].st_size)
        return {.name = file.text(sections[table.sh_link].sh_offset + symbols[s].st_name),
                .start = start};
    }
  }
  return {};
}

}  // namespace anyaccel::backends::sim::checking
