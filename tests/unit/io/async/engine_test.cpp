// Tests async_io with real files: reads and writes are exact for any offset, length, memory
// alignment and queue.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cstddef>
#include <cstring>
#include <thread>

#include "unit/io/async/support.h"

namespace anyaccel::ops::aio {
namespace {

std::size_t open_files() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

// Fails if blocks do not cover the range exactly, or a block for direct I/O is not aligned.
TEST(AioPlan, PiecesCoverTheRange) {
  std::minstd_rand random(1);
  for (int i = 0; i < 2000; ++i) {
    const std::int64_t unit = random() % 2 != 0 ? 4096 : 1;
    const std::int64_t block = 1 + static_cast<std::int64_t>(random() % 40000);
    const auto begin = static_cast<std::int64_t>(random() % 100000);
    const Range range{begin, begin + static_cast<std::int64_t>(random() % 200000)};
    const int parts = 1 + static_cast<int>(random() % 5);
    auto at = range.begin;
    const auto slices = split(range, parts, unit, block);
    EXPECT_LE(slices.size(), static_cast<std::size_t>(parts));
    for (auto left : slices) {
      EXPECT_EQ(left.begin, at);
      while (left.bytes() > 0) {
        const auto piece = first_piece(left, unit, block);
        ASSERT_GT(piece.bytes(), 0);
        EXPECT_EQ(piece.begin, left.begin);
        EXPECT_TRUE(is_whole(piece, unit) || piece.bytes() < unit);
        EXPECT_LE(piece.bytes(), std::max(block, unit));
        left.begin = piece.end;
      }
      at = left.end;
    }
    EXPECT_EQ(at, range.end);
  }
}

// Fails if an unaligned head or tail is lost, or a transfer changes adjacent bytes.
TEST(AioFile, RandomRangesWithEveryQueue) {
  const Folder folder;
  const auto path = folder.file("data");
  std::minstd_rand random(7);
  unsigned turn = 0;
  for (const char* queue : {"io_uring", "libaio", "threads"}) {
    std::shared_ptr<Engine> engine;
    for (int i = 0; i < 40; ++i) {
      if (i % 6 == 0) {
        Options options;
        options.block_bytes = std::int64_t{1} << (9 + random() % 9);
        options.queue_depth = 1 + static_cast<unsigned>(random() % 8);
        options.single_submit = random() % 2 != 0;
        options.overlap_events = random() % 2 != 0;
        options.workers = 1 + static_cast<int>(random() % 3);
        options.queue = queue;
        try {
          engine = Engine::make(options);
        } catch (const Error& error) {
          ASSERT_EQ(error.code(), ErrorCode::unavailable);
          break;
        }
        EXPECT_EQ(engine->queue_name(), queue);
      }
      auto expected = random_bytes(random() % 300000, ++turn);
      put(path, expected);
      const auto whole = i % 4 == 0;
      const auto offset = whole ? random() % 20 * 4096 : random() % 200000;
      auto source = random_bytes(whole ? random() % 40 * 4096 : random() % 200000, ++turn);
      if (source.empty()) continue;
      std::size_t shift = i % 3 == 0 ? 0 : random() % 4096;
      Bytes room(source.size() + 8192);
      auto* memory =
          reinterpret_cast<char*>(round_up(reinterpret_cast<std::intptr_t>(room.data()), 4096)) +
          shift;
      std::copy(source.begin(), source.end(), memory);
      run(*engine, job(path, true, memory, static_cast<std::int64_t>(offset), source.size()));
      if (expected.size() < offset + source.size()) expected.resize(offset + source.size());
      std::copy(source.begin(), source.end(),
                expected.begin() + static_cast<std::ptrdiff_t>(offset));
      ASSERT_TRUE(get(path) == expected) << queue << " write " << offset << " + " << source.size();

      const auto from = random() % expected.size();
      const auto count = random() % (expected.size() - from + 1);
      Bytes guard(count + 4096 + 64, 'x');
      run(*engine,
          job(path, false, guard.data() + shift % 64, static_cast<std::int64_t>(from), count));
      const auto* begin = expected.data() + from;
      ASSERT_TRUE(std::equal(begin, begin + count, guard.data() + shift % 64))
          << queue << " read " << from << " + " << count;
      EXPECT_EQ(guard[shift % 64 + count], 'x');
    }
  }
}

// Fails if an offset is truncated to 32 bits.
TEST(AioFile, BeyondFourGiB) {
  const Folder folder;
  const auto path = folder.file("sparse");
  const auto engine = Engine::make({.block_bytes = 65536, .queue_depth = 4});
  auto source = random_bytes(200001, 3);
  const std::int64_t offset = (5LL << 30) + 77;
  ASSERT_EQ(::close(::creat(path.c_str(), 0600)), 0);
  ASSERT_EQ(::truncate(path.c_str(), offset + 10), 0);  // the range extends past the file's end
  run(*engine, job(path, true, source.data(), offset, source.size()));
  EXPECT_EQ(std::filesystem::file_size(path), static_cast<std::uint64_t>(offset) + source.size());
  Bytes back(source.size());
  run(*engine, job(path, false, back.data(), offset, back.size()));
  EXPECT_TRUE(back == source);
}

// Fails if a successful or failed request leaks its descriptor. AIO_TEST_OPERATIONS sets the number
// of operations, for example 100000.
TEST(AioFile, DescriptorsAreClosed) {
  const Folder folder;
  const auto path = folder.file("data");
  const auto engine = Engine::make({.block_bytes = 4096, .queue_depth = 8});
  auto bytes = random_bytes(5000, 1);
  run(*engine, job(path, true, bytes.data(), 0, bytes.size()));
  const auto before = open_files();
  const char* wanted = std::getenv("AIO_TEST_OPERATIONS");
  const long operations = wanted != nullptr ? std::atol(wanted) : 2000;
  for (long i = 0; i < operations; ++i) {
    if (i % 50 == 0) {
      EXPECT_ANY_THROW(run(*engine, job(path, false, bytes.data(), 4000, bytes.size())));
    }
    run(*engine, job(path, i % 8 == 0, bytes.data(), i % 3, 4096));
  }
  EXPECT_EQ(open_files(), before);
}

// Fails if a missing or short file is not reported immediately, with the right error code.
TEST(AioFile, MissingAndShortFiles) {
  const Folder folder;
  const auto engine = Engine::make({});
  Bytes bytes(10);
  EXPECT_EQ(code_of([&] { job(folder.file("none"), false, bytes.data(), 0, 10); }),
            ErrorCode::not_found);
  EXPECT_EQ(code_of([&] { job("/", true, bytes.data(), 0, 10); }), ErrorCode::io);
  put(folder.file("short"), Bytes(9));
  EXPECT_EQ(code_of([&] { engine->start(job(folder.file("short"), false, bytes.data(), 0, 10)); }),
            ErrorCode::io);
  EXPECT_EQ(code_of([&] { engine->start(job(folder.file("short"), true, bytes.data(), -1, 10)); }),
            ErrorCode::invalid_argument);
  run(*engine, job(folder.file("short"), false, bytes.data(), 9, 0));
}

// Fails if the engine closes the caller's descriptor, or the descriptor's O_APPEND flag affects
// writes. Descriptors with the wrong access mode must be rejected.
TEST(AioFile, DescriptorsOfCallers) {
  const Folder folder;
  const auto path = folder.file("data");
  put(path, Bytes(10000, 'a'));
  const auto engine = Engine::make({});
  auto source = random_bytes(5001, 5);
  auto expected = get(path);
  for (const int flags : {O_WRONLY, O_WRONLY | O_DIRECT, O_RDWR | O_APPEND}) {
    const int descriptor = ::open(path.c_str(), flags);
    if (descriptor < 0) continue;  // O_DIRECT is unsupported
    run(*engine, {.file = File::of_descriptor(descriptor),
                  .write = true,
                  .memory = source.data(),
                  .range = {99, 5100}});
    EXPECT_EQ(::close(descriptor), 0);
    std::copy(source.begin(), source.end(), expected.begin() + 99);
    EXPECT_TRUE(get(path) == expected) << flags;
  }
  const int reading = ::open(path.c_str(), O_RDONLY);
  EXPECT_EQ(code_of([&] { File::of_descriptor(reading); }), ErrorCode::invalid_argument);
  ::close(reading);
  EXPECT_EQ(code_of([] { File::of_descriptor(-1); }), ErrorCode::invalid_argument);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_EQ(code_of([&] { File::of_descriptor(ends[1]); }), ErrorCode::invalid_argument);
  ::close(ends[0]);
  ::close(ends[1]);
}

// Fails if requests from several threads are mixed up or lost. The thread sanitizer also runs this
// test.
TEST(AioEngine, SeveralThreadsAndEngines) {
  const Folder folder;
  const auto shared =
      Engine::make({.block_bytes = 4096, .queue_depth = 3, .overlap_events = true, .workers = 2});
  std::vector<std::thread> threads;
  for (unsigned number = 0; number < 4; ++number)
    threads.emplace_back([&, number] {
      const auto own = Engine::make(
          {.block_bytes = 8192, .queue_depth = 2, .queue = number % 2 != 0 ? "threads" : ""});
      for (unsigned i = 0; i < 20; ++i) {
        const auto path = folder.file(std::to_string(number));
        auto source = random_bytes(30000 + number * 1000 + i, number * 100 + i);
        run(i % 2 != 0 ? *own : *shared, job(path, true, source.data(), 0, source.size()));
        Bytes back(source.size());
        run(*shared, job(path, false, back.data(), 0, back.size()));
        EXPECT_TRUE(back == source);
      }
    });
  for (auto& thread : threads) thread.join();
}

// Fails if destroying an engine drops its pending requests.
TEST(AioEngine, DestructorCompletesRequests) {
  const Folder folder;
  auto source = random_bytes(1000000, 9);
  auto engine = Engine::make({.block_bytes = 4096, .queue_depth = 4});
  const auto request =
      engine->start(job(folder.file("data"), true, source.data(), 0, source.size()));
  engine.reset();
  EXPECT_TRUE(request->done());
  EXPECT_TRUE(get(folder.file("data")) == source);
}

// Fails if a forked child waits for the engine's threads, which exist only in the parent.
TEST(AioEngine, ForkedChildGetsAnError) {
  auto engine = Engine::make({});
  const auto child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(20);
    const auto code = code_of([&] { engine->require_same_process(); });
    engine.reset();
    ::_exit(code == ErrorCode::invalid_state ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Fails if there is no fallback when a sandbox blocks io_uring and libaio, or the reason for the
// fallback is not reported.
TEST(AioQueue, FallsBackWithTheReason) {
  const auto child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    sock_filter rules[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 1, 0),
                           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_setup, 0, 1),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog program{std::size(rules), rules};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
      ::_exit(77);
    const auto choice = choose_queue("", 4);
    const bool good =
        choice.queue->name() == std::string("threads") &&
        choice.reason.find("seccomp") != std::string::npos &&
        choice.reason.find("io_setup: Operation not permitted") != std::string::npos &&
        code_of([] { choose_queue("io_uring", 4); }) == ErrorCode::unavailable;
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "seccomp is unavailable";
  EXPECT_EQ(status, 0);
  EXPECT_EQ(code_of([] { choose_queue("fast", 4); }), ErrorCode::invalid_argument);
}

// Fails if invalid options are accepted.
TEST(AioEngine, Options) {
  for (const auto& options :
       {Options{.block_bytes = 0}, Options{.block_bytes = 2LL << 30}, Options{.queue_depth = 0},
        Options{.queue_depth = 5000}, Options{.workers = 0}})
    EXPECT_EQ(code_of([&] { Engine::make(options); }), ErrorCode::invalid_argument);
}

// Fails if a full disk is not reported, or the engine is unusable after the error.
TEST(AioFile, FullDisk) {
  const Folder folder;
  const auto mount = folder.file("small");
  std::filesystem::create_directory(mount);
  if (::mount("none", mount.c_str(), "tmpfs", 0, "size=1m") != 0)
    GTEST_SKIP() << "only root can mount a disk";
  const auto engine = Engine::make({.block_bytes = 65536, .queue_depth = 4});
  Bytes bytes(3 << 20, 'b');
  std::string text;
  try {
    run(*engine, job(mount + "/data", true, bytes.data(), 0, bytes.size()));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    text = error.what();
  }
  EXPECT_NE(text.find("No space left"), std::string::npos) << text;
  EXPECT_NO_THROW(run(*engine, job(mount + "/other", true, bytes.data(), 0, 100000)));
  ::umount2(mount.c_str(), MNT_DETACH);
}

}  // namespace
}  // namespace anyaccel::ops::aio
