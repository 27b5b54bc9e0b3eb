// Checkpoints on disks that fail late.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "anyaccel/llm/trainer.h"
#include "base/file.h"
#include "unit/llm/temporary_folder.h"
#include "unit/support/expect_error.h"

namespace {
std::atomic<int> flushes_until_full{-1};  // negative: never
}  // namespace

// Stands before libc's: a disk with delayed allocation says that it is full only here.
extern "C" int fsync(int descriptor) {
  if (flushes_until_full >= 0 && flushes_until_full-- == 0) {
    errno = ENOSPC;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

namespace anyaccel::llm {
namespace {

TrainOptions tiny(const TemporaryFolder& folder, std::int64_t steps) {
  TrainOptions options;
  options.data = {folder.path() / "text"};
  options.out = folder.path() / "out";
  options.steps = steps;
  options.held_out_tokens = 0;
  options.model.hidden_size = options.model.intermediate_size = options.model.head_dim = 8;
  options.model.num_layers = options.model.num_heads = options.model.num_kv_heads = 1;
  options.model.max_positions = 8;
  return options;
}

std::string all_files(const std::filesystem::path& folder) {
  std::string all;
  for (const auto& name : {"config.json", "model.safetensors", "training_state.safetensors", "trainer_state.json"})
    all += read_file(folder / name);
  return all;
}

// Fails when a file of the new checkpoint takes its place before all others are on the disk: half of two checkpoints
// cannot be resumed.
TEST(SaveRun, ADiskThatIsFullAtTheLastFileLeavesTheOldCheckpoint) {
  const TemporaryFolder folder;
  folder.write("text", std::string(1000, 'x'));
  Trainer(tiny(folder, 1)).run();
  const auto before = all_files(folder.path() / "out");
  for (const int good : {0, 3, 5}) {
    Trainer trainer(tiny(folder, 2));
    flushes_until_full = good;
    EXPECT_ERROR(trainer.run(), io, "No space left");
    flushes_until_full = -1;
    EXPECT_EQ(all_files(folder.path() / "out"), before) << good;
  }
  const auto files = std::filesystem::directory_iterator(folder.path() / "out");
  EXPECT_EQ(std::distance(begin(files), end(files)), 6);
}

}  // namespace
}  // namespace anyaccel::llm
