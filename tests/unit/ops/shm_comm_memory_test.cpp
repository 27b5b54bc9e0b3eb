// Shared memory: who may open it, what is left of it, and how ranks find out that they share none.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "shm_ranks.h"

namespace anyaccel::ops::shm {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("anyaccel-shm-test-" + random_token())) { fs::create_directory(path_); }
  ~Folder() { fs::remove_all(path_); }
  std::string path() const { return path_.string(); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

 private:
  fs::path path_;
};

// Breaks when others may read what ranks exchange, when a name can be guessed, or when the file outlives its use.
TEST(ShmMemory, FilesAreForThisUserAloneAndVanish) {
  const Folder folder;
  std::string path;
  {
    auto made = Memory::file(folder.path(), 4096);
    path = made.path();
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read | fs::perms::owner_write);
    const auto second = Memory::open(path, 4096);
    static_cast<char*>(made.data())[5] = 'x';
    EXPECT_EQ(static_cast<char*>(second.data())[5], 'x');
    EXPECT_NE(Memory::file(folder.path(), 4096).path(), path);
    made.remove_name();
    EXPECT_FALSE(fs::exists(path));
    static_cast<char*>(made.data())[6] = 'y';
    EXPECT_EQ(static_cast<char*>(second.data())[6], 'y');  // lives on without its name
  }
  EXPECT_EQ(folder.files(), 0);
}

// Breaks when a rank trusts a file that somebody else could have put there.
TEST(ShmMemory, WhatIsNotOursIsRefused) {
  const Folder folder;
  const auto made = Memory::file(folder.path(), 4096);
  EXPECT_EQ(code_of([&] { Memory::open(made.path(), 8192); }), code_of(ErrorCode::unavailable));
  fs::permissions(made.path(), fs::perms::others_write, fs::perm_options::add);
  EXPECT_EQ(code_of([&] { Memory::open(made.path(), 4096); }), code_of(ErrorCode::unavailable));
  EXPECT_EQ(code_of([&] { Memory::open("/dev/zero", 4096); }), code_of(ErrorCode::unavailable));
  EXPECT_EQ(code_of([&] { Memory::open(folder.path() + "/none", 4096); }), code_of(ErrorCode::unavailable));
  prepare(made.data(), {}, std::string(32, 'a'));
  EXPECT_TRUE(has_token(made.data(), std::string(32, 'a')));
  EXPECT_FALSE(has_token(made.data(), std::string(32, 'b')));
}

// Breaks when the lack of memory shows as SIGBUS in the middle of an operation.
TEST(ShmMemory, AMountThatIsTooSmallIsToldBeforeTheFirstWrite) {
  const Folder folder;
  try {
    Memory::file(folder.path(), std::size_t{1} << 50);
    FAIL() << "a petabyte";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unavailable);
    EXPECT_NE(std::string(error.what()).find("--shm-size"), std::string::npos) << error.what();
  }
  EXPECT_EQ(folder.files(), 0);
}

// Breaks when files of killed processes pile up, or when one in use is taken away.
TEST(ShmMemory, LeftoversGoAndFilesInUseStay) {
  const Folder folder;
  Meeting meeting(2);
  auto& ready = meeting.counter();
  const auto children = start_ranks(2, [&](int rank) {
    while (ready.load() < 1 - rank) std::this_thread::yield();  // making a file removes leftovers
    const auto made = Memory::file(folder.path(), 4096);
    made.hold(0);
    const timespec old[2] = {{1, 0}, {1, 0}};
    ::utimensat(AT_FDCWD, made.path().c_str(), old, 0);
    ready.fetch_add(1);
    if (rank == 0) ::raise(SIGKILL);
    ::pause();
    return 0;
  });
  EXPECT_EQ(end_of(children[0]), -SIGKILL);
  EXPECT_EQ(folder.files(), 2);
  remove_leftovers(folder.path());
  EXPECT_EQ(folder.files(), 1);
  ::kill(children[1], SIGKILL);
  end_of(children[1]);
  remove_leftovers(folder.path());
  EXPECT_EQ(folder.files(), 0);
}

// Breaks when only some ranks get a group, or none is told why: rank 1 is shown memory that it cannot open.
TEST(ShmConnect, RanksThatShareNothingAllGetTheReason) {
  Meeting meeting(3);
  for (const auto child : start_ranks(3, [&](int rank) {
         const auto honest = meeting.exchange(rank);
         const auto connected =
             connect({.rank = rank, .size = 3, .timeout = std::chrono::seconds(20)}, [&](const std::string& mine) {
               auto all = honest(mine);
               // As on another node, where that path is nothing or something else.
               if (const auto at = all[0].find(" /"); rank == 1 && at != std::string::npos)
                 all[0].replace(at + 1, std::string::npos, "/no/such/memory");
               return all;
             });
         return connected.communicator || connected.reason.find("rank 1") == std::string::npos ? 1 : 0;
       }))
    EXPECT_EQ(end_of(child), 0);
}

/// Ranks connect and work; one is killed at some moment. Whether the other one ended with an error.
bool survives_kill(std::mt19937& random) {
  Meeting meeting(2);
  const auto children = start_ranks(2, [&](int rank) {
    try {
      auto group = connect({.rank = rank, .size = 2, .timeout = std::chrono::seconds(20)}, meeting.exchange(rank, 500))
                       .communicator;
      std::vector<float> data(1000);
      for (;;) group->all_reduce(data.data(), data.data(), data.size(), Kind::f32, Reduce::sum);
    } catch (const Error&) {
      return 7;
    }
  });
  const auto victim = random() % 2;
  std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
  ::kill(children[victim], SIGKILL);
  const auto killed = end_of(children[victim]);
  return killed == -SIGKILL && end_of(children[1 - victim]) == 7;
}

// Breaks when a killed rank leaves memory behind, or hangs the other one.
TEST(ShmConnect, NothingIsLeftAfterAKill) {
  const auto count = [] {
    std::size_t found = 0;
    for (const auto& entry : fs::directory_iterator("/dev/shm"))
      found += entry.path().filename().string().rfind("anyaccel-shm-", 0) == 0;
    return found;
  };
  if (!fs::exists("/dev/shm")) GTEST_SKIP() << "no shared-memory mount here";
  const auto before = count();
  const char* const slow = std::getenv("ANYACCEL_SLOW_TESTS");
  std::mt19937 random(std::random_device{}());
  for (int i = 0; i < (slow != nullptr ? 50 : 5); ++i) EXPECT_TRUE(survives_kill(random));
  EXPECT_LE(count(), before);
}

}  // namespace
}  // namespace anyaccel::ops::shm
