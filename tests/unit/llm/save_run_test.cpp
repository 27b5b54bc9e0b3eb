// Tests saving checkpoints when the disk is full or the process is killed.
#include <ATen/Parallel.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>

#include "anyaccel/llm/trainer.h"
#include "base/file.h"
#include "unit/llm/temporary_folder.h"
#include "unit/support/expect_error.h"

namespace {
std::atomic<int> flushes_until_full{-1};  // if negative, the disk never fills up
std::atomic<int> renames_until_killed{-1};
}  // namespace

// Replaces libc's rename(), so that the process can be killed between two renames.
extern "C" int rename(const char* from, const char* to) noexcept {
  if (renames_until_killed >= 0 && renames_until_killed-- == 0) ::_exit(9);
  return static_cast<int>(::syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to));
}

// Replaces libc's fsync(). A file system with delayed allocation may not report a full disk until
// fsync().
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
  for (const auto& name :
       {"config.json", "model.safetensors", "training_state.safetensors", "trainer_state.json"})
    all += read_file(folder / name);
  return all;
}

// Fails if a file of the new checkpoint is renamed before all files of the new checkpoint are on
// disk. A mixture of two checkpoints cannot be resumed.
TEST(SaveRun, FullDiskKeepsTheOldCheckpoint) {
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

// Fails if a resumed run does not continue with the weights, moments, random numbers and schedule
// of the original run.
TEST(SaveRun, ResumedRunEqualsAnUninterruptedRun) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 100; ++i) text += "line " + std::to_string(i * i) + "\n";
  folder.write("text", text);
  TrainOptions options = tiny(folder, 8);
  const auto saved = [&] {
    return read_file(options.out / "model.safetensors") +
           read_file(options.out / "training_state.safetensors");
  };
  const auto whole = Trainer(options).run().losses;
  const auto files = saved();
  std::atomic<bool> stop{false};
  auto losses =
      Trainer(options).run([&](const TrainStep& step) { stop = step.step == 3; }, &stop).losses;
  ASSERT_EQ(losses.size(), 3U);
  options.resume = true;
  const auto rest = Trainer(options).run().losses;
  losses.insert(losses.end(), rest.begin(), rest.end());
  EXPECT_EQ(losses, whole);
  EXPECT_EQ(saved(), files);
}

// Fails if the error for a folder without a run does not say that there is nothing to resume.
TEST(SaveRun, NothingToResume) {
  const TemporaryFolder folder;
  folder.write("text", "a text to train on");
  TrainOptions options = tiny(folder, 8);
  options.resume = true;
  EXPECT_ERROR(Trainer(options).run(), not_found, "the folder contains no run to resume");
}

// Fails if a process killed between renames leaves a mixture of two checkpoints, or temporary files
// that are never removed.
TEST(SaveRun, KillBetweenRenamesLeavesOneCheckpoint) {
  const TemporaryFolder folder;
  folder.write("text", std::string(1000, 'x'));
  for (const int renames : {0, 1, 4, 6}) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      at::set_num_threads(1);  // this child does not have the threads that other tests started
      Trainer(tiny(folder, 1)).run();
      renames_until_killed = renames;
      Trainer(tiny(folder, 2)).run();
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(WEXITSTATUS(status), 9);
  }
  TrainOptions options = tiny(folder, 4);
  options.resume = true;
  // The last child was killed after it had written the list of renames, so its two steps count.
  EXPECT_EQ(Trainer(options).info().first_step, 2);
  Trainer(options).run();
  const auto files = std::filesystem::directory_iterator(folder.path() / "out");
  EXPECT_EQ(std::distance(begin(files), end(files)), 6);
}

}  // namespace
}  // namespace anyaccel::llm
