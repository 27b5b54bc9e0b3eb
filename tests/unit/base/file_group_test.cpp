#include "base/file_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "anyaccel/error.h"
#include "unit/support/expect_error.h"

namespace anyaccel {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNote = ".anyaccel-commit";

class FileGroupTest : public ::testing::Test {
 protected:
  FileGroupTest() {
    std::string name = (fs::temp_directory_path() / "file_group_XXXXXX").string();
    folder = ::mkdtemp(name.data());
  }
  ~FileGroupTest() override { fs::remove_all(folder); }
  void put(const std::string& name, const std::string& text) const {
    std::ofstream(folder / name) << text;
  }
  std::string text(const std::string& name) const { return read_file(folder / name); }
  std::ptrdiff_t entries() const {
    return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
  }

  fs::path folder;
};

// Fails if a file is not replaced, or temporary files remain.
TEST_F(FileGroupTest, CommitReplacesAllFiles) {
  put("a", "old");
  FileGroup group(folder);
  group.add("a").write("new a");
  group.add("b").write("new b");
  EXPECT_EQ(text("a"), "old");
  group.commit();
  EXPECT_EQ(text("a") + text("b"), "new anew b");
  EXPECT_EQ(entries(), 2);
}

// Fails if a reader sees a mixture of old and new files after a writer died between two renames.
TEST_F(FileGroupTest, InterruptedCommitIsFinished) {
  put("a", "new a");
  put("b", "old b");
  put("b.part-1-1", "new b");
  put(kNote, "a.part-1-0\na\nb.part-1-1\nb\n");
  finish_file_group(folder);
  EXPECT_EQ(text("a") + text("b"), "new anew b");
  EXPECT_EQ(entries(), 2);
  finish_file_group(folder);  // no-op
  finish_file_group(folder / "none");
}

// Fails if a forged commit note can move files into or out of the folder, or rename unrelated
// files.
TEST_F(FileGroupTest, ForgedNoteIsRejected) {
  put("victim", "kept");
  for (const std::string note :
       {"../x.part-1\nx\n", "x.part-1\n../x\n", "victim\nx\n", "x.part-1/../victim\nx\n"}) {
    put(kNote, note);
    EXPECT_ERROR(finish_file_group(folder), corrupt, kNote);
    EXPECT_EQ(text("victim"), "kept");
  }
}

// Fails if temporary files of dead writers remain, or those of a live writer are removed.
TEST_F(FileGroupTest, FilesOfDeadWritersAreRemoved) {
  put("a.part-1-0", "half");
  AtomicFile living(folder / "a");
  FileGroup group(folder);
  group.add("a").write("new");
  EXPECT_FALSE(fs::exists(folder / "a.part-1-0"));
  EXPECT_TRUE(fs::exists(living.aside()));
  group.commit();
  living.write("later");
  living.commit();
  EXPECT_EQ(text("a"), "later");
}

// Fails if commit() throws because a reader has already finished the renames.
TEST_F(FileGroupTest, ReaderMayFinishTheCommit) {
  AtomicFile file(folder / "a");
  file.write("new");
  file.flush();
  put(kNote, file.aside().filename().string() + "\na\n");
  finish_file_group(folder);
  file.commit();
  EXPECT_EQ(text("a"), "new");
}

}  // namespace
}  // namespace anyaccel
