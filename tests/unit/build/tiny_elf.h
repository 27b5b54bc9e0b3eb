// The bytes of an ELF file that contains only a build id and the names of required libraries.
#pragma once

#include <elf.h>

#include <cstring>
#include <string>
#include <vector>

namespace anyaccel::build {

inline std::string tiny_elf(const std::string& build_id, const std::vector<std::string>& needed,
                            const std::string& run_path = {}) {
  constexpr std::uint64_t kAddress =
      0x400000;  // differs from the file offset, to detect readers that confuse the two
  std::string names(1, '\0');
  std::vector<Elf64_Dyn> dynamic;
  for (const auto& name : needed) {
    dynamic.push_back({DT_NEEDED, {names.size()}});
    names += name + '\0';
  }
  if (!run_path.empty()) {
    dynamic.push_back({DT_RPATH, {names.size()}});
    names += run_path + '\0';
  }
  std::string note;
  if (!build_id.empty()) {
    const Elf64_Nhdr head{4, static_cast<Elf64_Word>(build_id.size()), NT_GNU_BUILD_ID};
    note.assign(reinterpret_cast<const char*>(&head), sizeof head);
    note += std::string("GNU", 4) + build_id;
  }
  const std::uint64_t notes_at = sizeof(Elf64_Ehdr) + 3 * sizeof(Elf64_Phdr),
                      names_at = notes_at + note.size(), dynamic_at = names_at + names.size();
  dynamic.push_back({DT_STRTAB, {kAddress + names_at}});
  dynamic.push_back({DT_NULL, {0}});
  const std::uint64_t dynamic_size = dynamic.size() * sizeof(Elf64_Dyn),
                      all = dynamic_at + dynamic_size;
  Elf64_Ehdr head{};
  std::memcpy(head.e_ident, ELFMAG, SELFMAG);
  head.e_ident[EI_CLASS] = ELFCLASS64;
  head.e_ident[EI_DATA] = ELFDATA2LSB;
  head.e_type = ET_DYN;
  head.e_phoff = sizeof head;
  head.e_phentsize = sizeof(Elf64_Phdr);
  head.e_phnum = 3;
  const Elf64_Phdr segments[] = {
      {PT_LOAD, PF_R, 0, kAddress, kAddress, all, all, 8},
      {PT_NOTE, PF_R, notes_at, kAddress, kAddress, note.size(), note.size(), 4},
      {PT_DYNAMIC, PF_R, dynamic_at, kAddress, kAddress, dynamic_size, dynamic_size, 8}};
  std::string out(reinterpret_cast<const char*>(&head), sizeof head);
  out.append(reinterpret_cast<const char*>(segments), sizeof segments);
  out += note + names;
  return out.append(reinterpret_cast<const char*>(dynamic.data()), dynamic_size);
}

}  // namespace anyaccel::build
