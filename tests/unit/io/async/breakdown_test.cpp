// Tests failures that must not crash or hang the process: broken queues, threads that cannot start,
// persistent errors, and paths that are not regular files.
#include <grp.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <chrono>
#include <future>
#include <new>
#include <thread>

#include "unit/io/async/support.h"

namespace anyaccel::ops::aio {
namespace {

using namespace std::chrono_literals;
constexpr auto kDo = FakeQueue::kDo;

/// Runs `call` in a child for at most ten seconds and returns its status: 0 on success, 77 if the
/// test is impossible on this system.
int in_child(const std::function<int()>& call) {
  const auto child = ::fork();
  if (child == 0) {
    ::alarm(10);
    int status = 2;
    try {
      status = call();
    } catch (...) {
    }
    ::_exit(status);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Waits for at most ten seconds, so that a hang becomes a test failure. Returns whether the
/// request completed.
bool ends(Engine& engine, Request& request) {
  auto waiting = std::async(std::launch::async, [&] { engine.wait(request); });
  if (waiting.wait_for(10s) == std::future_status::ready) return true;
  request.cancel();
  return false;
}

class AioFailures : public testing::Test {
 protected:
  AioFailures() : path(folder.file("data")), bytes(random_bytes(100003, 4)) { put(path, bytes); }
  Folder folder;
  std::string path;
  Bytes bytes;
};

/// A queue that throws in the submit() or reap() call with the given zero-based index. All later
/// reap() calls throw too.
class BrokenQueue final : public Queue {
 public:
  BrokenQueue(int bad_submit, int bad_reap)
      : queue_([](Transfer&) { return kDo; }), submit_(bad_submit), reap_(bad_reap) {}
  const char* name() const noexcept override { return "broken"; }
  std::size_t submit(Transfer* const* transfers, std::size_t count) override {
    if (submit_-- == 0) throw std::bad_alloc();
    return queue_.submit(transfers, count);
  }
  void reap(std::size_t least, std::vector<Transfer*>& done) override {
    if (reap_-- <= 0) throw Error(ErrorCode::internal, "broken", {.what = "the ring is gone"});
    queue_.reap(least, done);
  }

 private:
  FakeQueue queue_;
  int submit_, reap_;
};

Options with_broken(int bad_submit, int bad_reap, int workers = 1) {
  auto out = with_hook([](Transfer&) { return kDo; });
  out.workers = workers;
  out.make_queue = [=](unsigned) {
    return Choice{std::make_unique<BrokenQueue>(bad_submit, bad_reap), "a test's"};
  };
  return out;
}

// Fails if an exception on a worker thread terminates the process, or leaves requests incomplete.
TEST_F(AioFailures, BrokenQueueFailsItsRequests) {
  for (const int workers : {1, 3}) {
    const auto engine = Engine::make(with_broken(-1, 1, workers));
    auto keep = std::make_shared<Bytes>(bytes.size());
    const std::weak_ptr<Bytes> watched = keep;
    auto what = job(path, false, keep->data(), 0, keep->size());
    what.keep = std::move(keep);
    const auto first = engine->start(std::move(what));
    ASSERT_TRUE(ends(*engine, *first));
    EXPECT_EQ(code_of([&] { first->check(); }), ErrorCode::io);
    // The engine keeps the memory, because the kernel may still be reading data into it, and the
    // engine cannot know when the read ends.
    EXPECT_FALSE(watched.expired());
    Bytes back(bytes.size());
    const auto second = engine->start(job(path, false, back.data(), 0, back.size()));
    ASSERT_TRUE(ends(*engine, *second));
    try {
      second->check();
      FAIL() << "a broken queue completed a read";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("the ring is gone"), std::string::npos)
          << error.what();
    }
  }
}

// Fails if a temporary lack of memory breaks the worker, or is not reported as out of memory.
TEST_F(AioFailures, TemporaryLackOfMemory) {
  const auto engine = Engine::make(with_broken(1, 1 << 20));
  Bytes back(bytes.size());
  const auto first = engine->start(job(path, false, back.data(), 0, back.size()));
  ASSERT_TRUE(ends(*engine, *first));
  EXPECT_EQ(code_of([&] { first->check(); }), ErrorCode::out_of_memory);
  run(*engine, job(path, false, back.data(), 0, back.size()));
  EXPECT_TRUE(back == bytes);
}

// Fails if a persistent error is retried forever, or cancellation does not stop the retries.
TEST_F(AioFailures, PersistentErrors) {
  for (const bool cancels : {true, false}) {
    auto options = with_hook([](Transfer&) -> std::int64_t { return -EAGAIN; });
    options.patience = cancels ? 1h : 50ms;
    const auto engine = Engine::make(options);
    Bytes back(bytes.size());
    const auto request = engine->start(job(path, false, back.data(), 0, back.size()));
    if (cancels) request->cancel();
    ASSERT_TRUE(ends(*engine, *request));
    EXPECT_EQ(request->error(), cancels ? ECANCELED : EAGAIN);
  }
}

/// A queue that accepts no transfers.
class FullQueue final : public Queue {
 public:
  const char* name() const noexcept override { return "full"; }
  std::size_t submit(Transfer* const*, std::size_t) override { return 0; }
  void reap(std::size_t, std::vector<Transfer*>&) override {}
};

// Fails if a full queue blocks a cancelled request or the engine's destructor.
TEST_F(AioFailures, FullQueueBlocksNobody) {
  auto options = with_hook([](Transfer&) { return kDo; });
  options.make_queue = [](unsigned) { return Choice{std::make_unique<FullQueue>(), "a test's"}; };
  options.patience = 200ms;
  auto engine = Engine::make(options);
  Bytes back(bytes.size());
  const auto cancelled = engine->start(job(path, false, back.data(), 0, back.size()));
  cancelled->cancel();
  ASSERT_TRUE(ends(*engine, *cancelled));
  EXPECT_EQ(cancelled->error(), ECANCELED);
  const auto other = engine->start(job(path, false, back.data(), 0, back.size()));
  auto going = std::async(std::launch::async, [&] { engine.reset(); });
  ASSERT_EQ(going.wait_for(10s), std::future_status::ready);
  EXPECT_EQ(other->error(), EAGAIN);
}

/// Runs `call` in a child as an unprivileged user who can start at most `threads` threads.
int with_few_threads(unsigned threads, const std::function<int()>& call) {
  return in_child([&] {
    const rlimit limit{threads + 1, threads + 1};
    if (::geteuid() != 0 || ::setgroups(0, nullptr) != 0 || ::setresuid(54321, 54321, 54321) != 0 ||
        ::setrlimit(RLIMIT_NPROC, &limit) != 0)
      return 77;
    return call();
  });
}

// Fails if a thread that cannot start terminates the process. If only some threads start, the queue
// must work with those.
TEST_F(AioFailures, ThreadsThatCannotStart) {
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  const int some = with_few_threads(3, [&] {
    const auto choice = choose_queue("threads", 8);
    Bytes back(bytes.size());
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    Transfer transfer{.file = file, .memory = back.data(), .bytes = back.size()};
    Transfer* const one = &transfer;
    std::vector<Transfer*> done;
    if (choice.queue->submit(&one, 1) != 1) return 1;
    choice.queue->reap(1, done);
    // The unprivileged user may lack access to the parent folders.
    return done.size() == 1 && (file < 0 || back == bytes) ? 0 : 1;
  });
  if (some == 77) GTEST_SKIP() << "only root can become another user";
  EXPECT_EQ(some, 0);
  EXPECT_EQ(with_few_threads(0,
                             [] {
                               return code_of([] { choose_queue("threads", 8); }) ==
                                              ErrorCode::unavailable
                                          ? 0
                                          : 1;
                             }),
            0);
  EXPECT_EQ(
      with_few_threads(
          0, [] { return code_of([] { Engine::make({}); }) == ErrorCode::unavailable ? 0 : 1; }),
      0);
  EXPECT_EQ(with_few_threads(2,
                             [] {
                               return code_of([] { Engine::make({.workers = 9}); }) ==
                                              ErrorCode::unavailable
                                          ? 0
                                          : 1;
                             }),
            0);
}

// Fails if opening a FIFO or a device blocks, or gives the wrong error code.
TEST_F(AioFailures, SpecialFilesAreRejected) {
  const auto fifo = folder.file("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  for (const bool write : {false, true})
    for (const auto& name : {fifo, std::string("/dev/null"), std::string("/dev/zero")})
      EXPECT_EQ(
          in_child([&] {
            return code_of([&] { File::open(name, write); }) == ErrorCode::invalid_argument ? 0 : 1;
          }),
          0)
          << name << " " << write;
  for (const bool write : {false, true})
    EXPECT_EQ(code_of([&] { File::open(folder.file(""), write); }), ErrorCode::io) << write;
  const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  EXPECT_EQ(code_of([&] { File::of_descriptor(null); }), ErrorCode::invalid_argument);
  ::close(null);
  const auto file = File::open(path, false);
  EXPECT_EQ(::fcntl(file->descriptor(), F_GETFL) & O_NONBLOCK, 0);
}

// Fails if a completed request keeps its memory until the caller waits for it.
TEST_F(AioFailures, UnawaitedRequestReleasesItsMemory) {
  const auto engine = Engine::make(with_hook([](Transfer&) { return kDo; }));
  for (const bool held : {true, false}) {
    auto keep = std::make_shared<Bytes>(bytes.size());
    const std::weak_ptr<Bytes> watched = keep;
    auto what = job(path, false, keep->data(), 0, keep->size());
    what.keep = std::move(keep);
    auto request = engine->start(std::move(what));
    if (!held) request.reset();
    for (int i = 0; i < 1000 && !watched.expired(); ++i) std::this_thread::sleep_for(10ms);
    EXPECT_TRUE(watched.expired()) << held;
  }
}

}  // namespace
}  // namespace anyaccel::ops::aio
