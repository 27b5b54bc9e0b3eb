#include "backends/sim/check/imports.h"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>

#include <atomic>
#include <cstring>

#include "backends/sim/page_size.h"

namespace anyaccel::backends::sim::checking {

namespace {

#if defined(__aarch64__)
constexpr std::uint32_t kCalled = R_AARCH64_JUMP_SLOT, kTaken = R_AARCH64_GLOB_DAT;
#else
constexpr std::uint32_t kCalled = R_X86_64_JUMP_SLOT, kTaken = R_X86_64_GLOB_DAT;
#endif

struct Range {
  std::uintptr_t low = 0, high = 0;
  bool contains(std::uintptr_t address) const { return address >= low && address < high; }
};

struct Relocations {
  const ElfW(Rela) * first = nullptr;
  std::size_t count = 0;
};

/// The parts of an object's dynamic section that describe its imports.
struct Imports {
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  Relocations called, taken;
  Range read_only;  ///< made read-only by the loader after it has resolved the imports (RELRO)
};

/// The loader stores some addresses relative to the object, for example in the vDSO.
std::uintptr_t address_in(const dl_phdr_info& object, std::uintptr_t value) {
  return value < object.dlpi_addr ? value + object.dlpi_addr : value;
}

Imports imports_of(const dl_phdr_info& object) {
  Imports found;
  const ElfW(Dyn)* entry = nullptr;
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const auto& header = object.dlpi_phdr[i];
    const auto low = object.dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_DYNAMIC) entry = reinterpret_cast<const ElfW(Dyn)*>(low);
    // The loader rounds both ends down, so the last partial page stays writable.
    if (header.p_type == PT_GNU_RELRO)
      found.read_only = {page_of(low), page_of(low + header.p_memsz)};
  }
  std::size_t relative = 0;
  for (; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    const auto at = address_in(object, entry->d_un.d_ptr);
    const auto count = entry->d_un.d_val / sizeof(ElfW(Rela));
    switch (entry->d_tag) {
      case DT_SYMTAB: found.symbols = reinterpret_cast<const ElfW(Sym)*>(at); break;
      case DT_STRTAB: found.names = reinterpret_cast<const char*>(at); break;
      case DT_JMPREL: found.called.first = reinterpret_cast<const ElfW(Rela)*>(at); break;
      case DT_PLTRELSZ: found.called.count = count; break;
      case DT_RELA: found.taken.first = reinterpret_cast<const ElfW(Rela)*>(at); break;
      case DT_RELASZ: found.taken.count = count; break;
      case DT_RELACOUNT: relative = entry->d_un.d_val; break;
      default: break;
    }
  }
  // Skip the relative relocations. They come first, and a big library has a million of them.
  if (found.taken.first != nullptr && relative <= found.taken.count)
    found.taken = {found.taken.first + relative, found.taken.count - relative};
  return found;
}

bool write(std::uintptr_t address, void* function, const Range& read_only) {
  auto* place = reinterpret_cast<void**>(address);
  if (std::atomic_ref(*place).load() == function) return false;
  auto* page = reinterpret_cast<void*>(page_of(address));
  const bool locked = read_only.contains(address);
  if (locked && ::mprotect(page, page_size(), PROT_READ | PROT_WRITE) != 0) return false;
  std::atomic_ref(*place).store(function);
  if (locked) ::mprotect(page, page_size(), PROT_READ);
  return true;
}

std::size_t replace(const dl_phdr_info& object, const Imports& imports,
                    const Relocations& relocations, std::span<const Replacement> replacements) {
  std::size_t replaced = 0;
  for (std::size_t i = 0; relocations.first != nullptr && i < relocations.count; ++i) {
    const auto& each = relocations.first[i];
    const auto type = static_cast<std::uint32_t>(ELF64_R_TYPE(each.r_info));
    if (type != kCalled && type != kTaken) continue;
    const char* name = imports.names + imports.symbols[ELF64_R_SYM(each.r_info)].st_name;
    for (const auto& replacement : replacements)
      if (std::strcmp(name, replacement.name) == 0)
        replaced += write(object.dlpi_addr + each.r_offset, replacement.function, imports.read_only)
                        ? 1
                        : 0;
  }
  return replaced;
}

}  // namespace

std::size_t replace_imports(
    const std::function<std::span<const Replacement>(const LoadedObject&)>& wanted) {
  struct Work {
    const std::function<std::span<const Replacement>(const LoadedObject&)>& wanted;
    std::size_t replaced = 0;
  } work{wanted};
  ::dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t /*size*/, void* data) {
        auto& all = *static_cast<Work*>(data);
        const auto replacements =
            all.wanted({.base = object->dlpi_addr, .path = object->dlpi_name});
        if (replacements.empty()) return 0;
        const auto imports = imports_of(*object);
        if (imports.symbols == nullptr || imports.names == nullptr) return 0;
        for (const auto& relocations : {imports.called, imports.taken})
          all.replaced += replace(*object, imports, relocations, replacements);
        return 0;
      },
      &work);
  return work.replaced;
}

}  // namespace anyaccel::backends::sim::checking
