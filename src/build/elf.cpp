#include "build/elf.h"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "base/file.h"
#include "build/sha256.h"

namespace anyaccel::build {

namespace {

/// Larger than any real table. The limit prevents a corrupt file from causing huge reads.
constexpr std::uint64_t kMaxTable = 1 << 18;
constexpr std::size_t kMaxName = 512;

class File {
 public:
  /// Throws the same errors as open_regular_file().
  explicit File(const std::filesystem::path& path)
      : descriptor_(open_regular_file(path, "read_elf")) {}
  ~File() { ::close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// Reads `bytes` bytes at `offset`; returns false if not all of them can be read.
  bool read(void* to, std::uint64_t bytes, std::uint64_t offset) const {
    return offset < (std::uint64_t{1} << 62) &&
           ::pread(descriptor_, to, bytes, static_cast<off_t>(offset)) ==
               static_cast<ssize_t>(bytes);
  }
  template <typename T>
  std::optional<std::vector<T>> table(std::uint64_t bytes, std::uint64_t offset) const {
    if (bytes > kMaxTable) return std::nullopt;
    std::vector<T> out(bytes / sizeof(T));
    if (!read(out.data(), out.size() * sizeof(T), offset)) return std::nullopt;
    return out;
  }
  std::optional<std::string> name(std::uint64_t offset) const {
    std::array<char, kMaxName> text{};
    if (offset >= (std::uint64_t{1} << 62)) return std::nullopt;
    const auto count = ::pread(descriptor_, text.data(), text.size(), static_cast<off_t>(offset));
    const auto* end =
        count > 0 ? std::memchr(text.data(), 0, static_cast<std::size_t>(count)) : nullptr;
    if (end == nullptr) return std::nullopt;
    return std::string(text.data());
  }

 private:
  int descriptor_;
};

std::string build_id_in(const std::vector<char>& notes) {
  constexpr char kDigits[] = "0123456789abcdef";
  const auto padded = [](std::uint64_t size) { return (size + 3) / 4 * 4; };
  Elf64_Nhdr head;
  for (std::uint64_t at = 0; at + sizeof head <= notes.size();) {
    std::memcpy(&head, notes.data() + at, sizeof head);
    const auto text = at + sizeof head;
    const auto content = text + padded(head.n_namesz);
    if (content + head.n_descsz > notes.size()) return {};
    if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 &&
        std::memcmp(notes.data() + text, "GNU", 4) == 0) {
      std::string out;
      for (std::uint64_t i = 0; i < head.n_descsz; ++i) {
        const auto byte = static_cast<unsigned char>(notes[content + i]);
        out += {kDigits[byte >> 4], kDigits[byte & 15]};
      }
      return out;
    }
    at = content + padded(head.n_descsz);
  }
  return {};
}

/// Converts an address in the loaded library to an offset in the file.
std::optional<std::uint64_t> offset_of(const std::vector<Elf64_Phdr>& segments,
                                       std::uint64_t address) {
  for (const auto& one : segments)
    if (one.p_type == PT_LOAD && address >= one.p_vaddr && address - one.p_vaddr < one.p_filesz)
      return one.p_offset + (address - one.p_vaddr);
  return std::nullopt;
}

std::optional<ElfFacts> read(const std::filesystem::path& path) {
  const File file(path);
  Elf64_Ehdr head;
  constexpr auto kOrder = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
  if (!file.read(&head, sizeof head, 0) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
      head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_ident[EI_DATA] != kOrder ||
      head.e_phentsize != sizeof(Elf64_Phdr))
    return std::nullopt;
  const auto segments = file.table<Elf64_Phdr>(head.e_phnum * sizeof(Elf64_Phdr), head.e_phoff);
  if (!segments) return std::nullopt;
  ElfFacts out;
  for (const auto& segment : *segments) {
    if (segment.p_type == PT_NOTE && out.build_id.empty())
      if (const auto notes = file.table<char>(segment.p_filesz, segment.p_offset))
        out.build_id = build_id_in(*notes);
    if (segment.p_type != PT_DYNAMIC) continue;
    const auto entries = file.table<Elf64_Dyn>(segment.p_filesz, segment.p_offset);
    if (!entries) return std::nullopt;
    std::optional<std::uint64_t> names;
    for (const auto& entry : *entries)
      if (entry.d_tag == DT_STRTAB) names = offset_of(*segments, entry.d_un.d_ptr);
    for (const auto& entry : *entries) {
      if (entry.d_tag == DT_NULL) break;
      if (entry.d_tag != DT_NEEDED && entry.d_tag != DT_RPATH && entry.d_tag != DT_RUNPATH)
        continue;
      auto name = names ? file.name(*names + entry.d_un.d_val) : std::nullopt;
      if (!name && entry.d_tag == DT_NEEDED) return std::nullopt;
      if (entry.d_tag == DT_NEEDED)
        out.needed.push_back(std::move(*name));
      else
        out.run_path = std::move(name).value_or("");
    }
  }
  return out;
}

}  // namespace

std::optional<ElfFacts> read_elf(const std::filesystem::path& file) noexcept try {
  return read(file);
} catch (...) {
  return std::nullopt;
}

std::string library_identity(const std::filesystem::path& file) try {
  constexpr int kPages = 64;
  if (const auto elf = read_elf(file); elf && !elf->build_id.empty())
    return "build id " + elf->build_id;
  const File content(file);
  const std::uint64_t size = std::filesystem::file_size(file);
  std::array<char, 4096> page{};
  Sha256 hash;
  const auto stride = std::max<std::uint64_t>(size / kPages, page.size());
  for (std::uint64_t at = 0; at < size; at += stride) {
    const std::uint64_t count = std::min<std::uint64_t>(page.size(), size - at);
    if (content.read(page.data(), count, at)) hash.add({page.data(), count});
  }
  return std::to_string(size) + " bytes " + hash.hex();
} catch (const std::exception&) {
  return {};
}

}  // namespace anyaccel::build
