// Writes a fuzzer's input to a file in a temporary folder.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace anyaccel::fuzz {

/// Writes the bytes to the file `name` in a temporary folder, which is in memory if possible, and
/// returns the folder.
inline const std::filesystem::path& folder_with(const char* name, const std::uint8_t* data,
                                                std::size_t size) {
  static const std::filesystem::path folder = [] {
    std::string pattern = std::filesystem::exists("/dev/shm") ? "/dev/shm" : "/tmp";
    pattern += "/anyaccel_fuzz.XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    static const std::string made = pattern;
    std::atexit([] { std::filesystem::remove_all(made); });
    return std::filesystem::path(made);
  }();
  std::ofstream(folder / name, std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  return folder;
}

}  // namespace anyaccel::fuzz
