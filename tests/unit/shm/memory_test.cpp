// Tests shared memory: permissions, cleanup, and ranks that cannot share memory.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "unit/shm/shm_ranks.h"

namespace anyaccel::ops::shm {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("anyaccel-shm-test-" + random_token())) {
    fs::create_directory(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  std::string path() const { return path_.string(); }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

 private:
  fs::path path_;
};

// Fails if other users can access the shared memory, or its file is not removed.
TEST(ShmMemory, FilesArePrivateAndTemporary) {
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
    EXPECT_EQ(static_cast<char*>(second.data())[6], 'y');  // usable although its file was removed
  }
  EXPECT_EQ(folder.files(), 0);
}

// Fails if a rank opens a file that another user could have created.
TEST(ShmMemory, UntrustedFilesAreRejected) {
  const Folder folder;
  const auto made = Memory::file(folder.path(), 4096);
  EXPECT_EQ(code_of([&] { Memory::open(made.path(), 8192); }), code_of(ErrorCode::unavailable));
  fs::permissions(made.path(), fs::perms::others_write, fs::perm_options::add);
  EXPECT_EQ(code_of([&] { Memory::open(made.path(), 4096); }), code_of(ErrorCode::unavailable));
  EXPECT_EQ(code_of([&] { Memory::open("/dev/zero", 4096); }), code_of(ErrorCode::unavailable));
  EXPECT_EQ(code_of([&] { Memory::open(folder.path() + "/none", 4096); }),
            code_of(ErrorCode::unavailable));
  prepare(made.data(), {}, std::string(32, 'a'));
  EXPECT_TRUE(has_token(made.data(), std::string(32, 'a')));
  EXPECT_FALSE(has_token(made.data(), std::string(32, 'b')));
}

// Fails if a lack of memory is detected only by a SIGBUS during an operation.
TEST(ShmMemory, SmallMountIsReportedBeforeTheFirstWrite) {
  const Folder folder;
  try {
    Memory::file(folder.path(), std::size_t{1} << 50);
    FAIL() << "a petabyte was allocated";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unavailable);
    EXPECT_NE(std::string(error.what()).find("--shm-size"), std::string::npos) << error.what();
  }
  EXPECT_EQ(folder.files(), 0);
}

// Fails if files of killed processes accumulate, or a file in use is removed.
TEST(ShmMemory, OnlyUnusedFilesAreRemoved) {
  const Folder folder;
  Meeting meeting(2);
  auto& ready = meeting.counter();
  const auto children = start_ranks(2, [&](int rank) {
    while (ready.load() < 1 - rank) std::this_thread::yield();  // creating a file removes leftovers
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

// Fails if a file that a rank has created but not yet shared is removed as a leftover.
TEST(ShmMemory, NewFileIsInUse) {
  const Folder folder;
  const auto made = Memory::file(folder.path(), 4096);
  const timespec old[2] = {{1, 0}, {1, 0}};
  ::utimensat(AT_FDCWD, made.path().c_str(), old, 0);
  remove_leftovers(folder.path());
  EXPECT_TRUE(fs::exists(made.path()));
}

// Fails if a rank loses its lock on a file when another part of its process opens and closes the
// same file.
TEST(ShmMemory, LockSurvivesOtherDescriptorsOfTheFile) {
  const Folder folder;
  const auto made = Memory::file(folder.path(), 4096);
  made.hold(3);
  ::close(::open(made.path().c_str(), O_RDWR | O_CLOEXEC));
  remove_leftovers(folder.path());
  const auto child = start_ranks(1, [&](int) {
    const auto other = Memory::open(made.path(), 4096);
    return (other.held_by_another(3) ? 1 : 0) + (other.held_by_another(2) ? 2 : 0);
  });
  EXPECT_EQ(end_of(child[0]), 1);
}

// Fails if a forked child keeps the lock of its dead parent, so that other ranks wait for the
// parent.
TEST(ShmMemory, ForkedChildDoesNotHoldItsParentsLock) {
  const auto seen = Memory::anonymous(4096);
  Meeting meeting(1);
  const auto parent = start_ranks(1, [&](int) {
    const auto mine = Memory::open(seen.path(), 4096);
    mine.hold(0);
    start_ranks(1, [&](int) {
      meeting.counter().store(::getpid());
      ::pause();
      return 0;
    });
    while (meeting.counter().load() == 0) std::this_thread::yield();
    ::raise(SIGKILL);
    return 0;
  });
  EXPECT_EQ(end_of(parent[0]), -SIGKILL);
  EXPECT_FALSE(seen.held_by_another(0));
  ::kill(meeting.counter().load(), SIGKILL);
}

// Fails if files on a network file system, which other machines may cache, are accepted as shared
// memory.
TEST(ShmMemory, NetworkFoldersAreRejected) {
  for (const unsigned long type :
       {0x6969UL, 0xff534d42UL, 0xfe534d42UL, 0x517bUL, 0x01021997UL, 0x00c36400UL, 0x65735546UL,
        0x0bd00bd0UL, 0x47504653UL, 0x19830326UL, 0x7461636fUL, 0x5346414fUL, 0x1234UL})
    EXPECT_FALSE(is_local(type))
        << std::hex
        << type;  // NFS, CIFS, SMB2, SMB, 9p, Ceph, FUSE, Lustre, GPFS, BeeGFS, OCFS2, AFS
  for (const unsigned long type : {0x01021994UL, 0xef53UL, 0x958458f6UL})
    EXPECT_TRUE(is_local(type)) << std::hex << type;
  for (const auto make : {&Memory::file, &Memory::in_folder}) try {
      make("/proc", 4096);
      FAIL() << "/proc was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string(error.what()).find("ANYACCEL_SHM_DIR"), std::string::npos)
          << error.what();
    }
}

class ShmFolder : public ::testing::Test {
 protected:
  /// Sets the folder for all ranks, which are forked later.
  static void choose(const std::string& folder) { ::setenv("ANYACCEL_SHM_DIR", folder.c_str(), 1); }
  void TearDown() override { ::unsetenv("ANYACCEL_SHM_DIR"); }
};

// Fails if only rank 0 gets the error about a network folder, or ranks continue without shared
// memory.
TEST_F(ShmFolder, NetworkFolderIsAnErrorOnEveryRank) {
  choose("/proc");
  Meeting meeting(2);
  for (const auto child : start_ranks(2, [&](int rank) {
         return code_of([&] { connect({.rank = rank, .size = 2}, meeting.exchange(rank)); });
       }))
    EXPECT_EQ(end_of(child), code_of(ErrorCode::invalid_argument));
}

// Fails if the memory has a file name in the chosen folder although the ranks do not need one.
TEST_F(ShmFolder, HasNoNamedFile) {
  const Folder folder;
  choose(folder.path());
  Meeting meeting(2);
  for (const auto child : start_ranks(2, [&](int rank) {
         const auto connected = connect({.rank = rank, .size = 2},
                                        [&, next = meeting.exchange(rank)](const auto& mine) {
                                          const auto all = next(mine);
                                          if (folder.files() != 0)
                                            throw std::runtime_error("a file");
                                          return all;
                                        });
         if (!connected.communicator) return 1;
         connected.communicator->barrier();
         return 0;
       }))
    EXPECT_EQ(end_of(child), 0);
}

/// Simulates ranks in containers that share a folder but cannot see each other's processes, so that
/// paths in /proc are invalid.
Exchange without_proc(Exchange next) {
  return [next](const std::string& mine) {
    auto all = next(mine);
    if (const auto at = all[0].find(" /proc/"); at != std::string::npos)
      all[0].replace(at, std::string::npos, " /proc/0/fd/0");
    return all;
  };
}

// Fails if a long path is truncated when it is sent to other ranks, or the file is not removed
// after the exchange.
TEST_F(ShmFolder, LongPathWorksAcrossContainers) {
  const Folder folder;
  const auto deep = folder.path() + "/" + std::string(200, 'a') + "/" + std::string(200, 'b');
  fs::create_directories(deep);
  choose(deep);
  Meeting meeting(2);
  for (const auto child : start_ranks(2, [&](int rank) {
         const auto connected =
             connect({.rank = rank, .size = 2}, without_proc(meeting.exchange(rank)));
         if (!connected.communicator) throw std::runtime_error(connected.reason);
         connected.communicator->barrier();
         return 0;
       }))
    EXPECT_EQ(end_of(child), 0);
  EXPECT_TRUE(fs::is_empty(deep));
}

// Fails if a file is not removed by the other ranks after the rank that created it has died.
TEST_F(ShmFolder, FileOfADeadCreatorIsRemoved) {
  const Folder folder;
  choose(folder.path());
  Meeting meeting(2);
  const auto children = start_ranks(2, [&](int rank) {
    int calls = 0;
    const auto next = without_proc(meeting.exchange(rank, 500));
    return code_of([&] {
      connect({.rank = rank, .size = 2}, [&](const std::string& mine) {
        // Rank 0 offers the file in the third exchange, after two exchanges for memory without a
        // name.
        if (++calls == 4 && rank == 0) ::raise(SIGKILL);
        return next(mine);
      });
    });
  });
  EXPECT_EQ(end_of(children[0]), -SIGKILL);
  EXPECT_EQ(end_of(children[1]), code_of(ErrorCode::timeout));
  EXPECT_EQ(folder.files(), 0);
}

// Fails if only some ranks get a group, or a rank does not get the reason for the failure. In this
// test, rank 1 gets a path to memory that it cannot open.
TEST(ShmConnect, AllRanksGetTheReasonForAFailure) {
  Meeting meeting(3);
  for (const auto child : start_ranks(3, [&](int rank) {
         const auto honest = meeting.exchange(rank);
         const auto connected =
             connect({.rank = rank, .size = 3, .timeout = std::chrono::seconds(20)},
                     [&](const std::string& mine) {
                       auto all = honest(mine);
                       // On another node, this path might not exist, or might refer to something
                       // else.
                       if (const auto at = all[0].find(" /"); rank == 1 && at != std::string::npos)
                         all[0].replace(at + 1, std::string::npos, "/no/such/memory");
                       return all;
                     });
         return connected.communicator || connected.reason.find("rank 1") == std::string::npos ? 1
                                                                                               : 0;
       }))
    EXPECT_EQ(end_of(child), 0);
}

/// Connects two ranks and kills one of them at a random time. Returns whether the other rank exited
/// with an error.
bool survives_kill(std::mt19937& random) {
  Meeting meeting(2);
  const auto children = start_ranks(2, [&](int rank) {
    try {
      auto group = connect({.rank = rank, .size = 2, .timeout = std::chrono::seconds(20)},
                           meeting.exchange(rank, 500))
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

std::size_t count_shm_files(const std::string& folder) {
  std::size_t found = 0;
  for (const auto& entry : fs::directory_iterator(folder))
    found += entry.path().filename().string().rfind("anyaccel-shm-", 0) == 0;
  return found;
}

int kills() { return std::getenv("ANYACCEL_SLOW_TESTS") != nullptr ? 50 : 5; }

// Fails if a killed rank leaves shared memory behind, or blocks the other rank.
TEST(ShmConnect, NothingIsLeftAfterAKill) {
  if (!fs::exists("/dev/shm")) GTEST_SKIP() << "/dev/shm does not exist";
  const auto before = count_shm_files("/dev/shm");
  std::mt19937 random(std::random_device{}());
  for (int i = 0; i < kills(); ++i) EXPECT_TRUE(survives_kill(random));
  EXPECT_LE(count_shm_files("/dev/shm"), before);
}

// Fails if a killed rank leaves files behind in a chosen folder, or blocks the other rank.
TEST_F(ShmFolder, NothingIsLeftThereAfterAKill) {
  const Folder folder;
  choose(folder.path());
  std::mt19937 random(std::random_device{}());
  for (int i = 0; i < kills(); ++i) EXPECT_TRUE(survives_kill(random));
  EXPECT_EQ(folder.files(), 0);
}

}  // namespace
}  // namespace anyaccel::ops::shm
