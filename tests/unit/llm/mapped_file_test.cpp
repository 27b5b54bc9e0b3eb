#include "llm/support/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "unit/llm/temporary_folder.h"
#include "unit/support/expect_error.h"

namespace anyaccel::llm {
namespace {

/// The kernel's flags for the memory mapping that contains `address`, or "" if the kernel does not
/// report flags.
std::string flags_of(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::istringstream words(line);
    if (words >> std::hex >> begin >> dash >> end && dash == '-')
      inside = begin <= wanted && wanted < end;
    if (inside && line.starts_with("VmFlags:")) return line + " ";
  }
  return "";
}

// Fails if the mapped bytes differ from the file's, or a write to them reaches the file.
TEST(MappedFile, ContainsTheFilesBytes) {
  const TemporaryFolder folder;
  folder.write("file", "some bytes");
  const auto file = MappedFile::open(folder.path() / "file");
  ASSERT_EQ(file->size(), 10U);
  EXPECT_EQ(std::memcmp(file->data(), "some bytes", 10), 0);
  *const_cast<std::byte*>(file->data()) = std::byte{'S'};
  std::ifstream again(folder.path() / "file");
  EXPECT_EQ(again.get(), 's');
}

// Fails if huge pages are not requested. Without them, reading weights is slower.
TEST(MappedFile, RequestsLargePages) {
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"))
    GTEST_SKIP() << "this system has no large pages";
  const TemporaryFolder folder;
  folder.write("file", std::string(100, 'x'));
  const auto file = MappedFile::open(folder.path() / "file");
  const std::string flags = flags_of(file->data());
  if (flags.empty()) GTEST_SKIP() << "this system does not report the flags of mappings";
  EXPECT_NE(flags.find(" hg "), std::string::npos) << flags;
}

// Fails if an empty file is an error, or the error about a file that cannot be mapped lacks the
// reason.
TEST(MappedFile, FilesThatCannotBeMapped) {
  const TemporaryFolder folder;
  folder.write("empty", "");
  EXPECT_EQ(MappedFile::open(folder.path() / "empty")->size(), 0U);
  EXPECT_ERROR(MappedFile::open(folder.path() / "none"), not_found, "No such file");
  EXPECT_ERROR(MappedFile::open(folder.path()), io, "Is a directory");
  ::alarm(20);  // opening a FIFO blocks until it has a writer
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  EXPECT_ERROR(MappedFile::open(folder / "fifo"), io, "a FIFO");
  EXPECT_ERROR(MappedFile::open("/dev/zero"), io, "a character device");
  ::alarm(0);
}

}  // namespace
}  // namespace anyaccel::llm
