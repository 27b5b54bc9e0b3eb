// Tests async_io with a fake queue that produces rare results.
#include <chrono>
#include <condition_variable>
#include <thread>

#include "unit/io/async/support.h"

namespace anyaccel::ops::aio {
namespace {

constexpr auto kDo = FakeQueue::kDo;

class AioFaults : public testing::Test {
 protected:
  AioFaults() : path(folder.file("data")), bytes(random_bytes(100003, 4)) { put(path, bytes); }
  Folder folder;
  std::string path;
  Bytes bytes;
};

// Fails if the rest of a short transfer is skipped, or transferred at the wrong offset.
TEST_F(AioFaults, ShortTransfersAreContinued) {
  std::minstd_rand random(2);
  const auto engine = Engine::make(with_hook([&](Transfer& transfer) {
    transfer.bytes = 1 + random() % transfer.bytes;
    return kDo;
  }));
  Bytes back(bytes.size());
  run(*engine, job(path, false, back.data(), 0, back.size()));
  EXPECT_TRUE(back == bytes);
  run(*engine, job(folder.file("copy"), true, bytes.data(), 0, bytes.size()));
  EXPECT_TRUE(get(folder.file("copy")) == bytes);
}

// Fails if EINTR or EAGAIN is treated as an error.
TEST_F(AioFaults, InterruptionsAreRetried) {
  int calls = 0;
  const auto engine = Engine::make(with_hook([&](Transfer&) -> std::int64_t {
    ++calls;
    return calls % 3 == 0 ? -EINTR : calls % 3 == 1 ? -EAGAIN : kDo;
  }));
  Bytes back(bytes.size());
  run(*engine, job(path, false, back.data(), 0, back.size()));
  EXPECT_TRUE(back == bytes);
}

// Fails if an error is reported for the wrong request, or lacks its offset or reason.
TEST_F(AioFaults, ErrorsBelongToTheirRequest) {
  for (const int error : {EIO, ENOSPC, EDQUOT}) {
    const auto engine = Engine::make(with_hook([&](Transfer& transfer) -> std::int64_t {
      return transfer.offset == 40960 && transfer.write ? -error : kDo;
    }));
    Bytes back(bytes.size());
    const auto bad = engine->start(job(folder.file("bad"), true, bytes.data(), 0, bytes.size()));
    const auto good = engine->start(job(path, false, back.data(), 0, back.size()));
    engine->wait(*bad);
    engine->wait(*good);
    EXPECT_EQ(good->error(), 0);
    EXPECT_TRUE(back == bytes);
    EXPECT_EQ(bad->error(), error);
    try {
      bad->check();
      FAIL() << "no error";
    } catch (const Error& told) {
      EXPECT_EQ(told.code(), ErrorCode::io);
      const std::string text = told.what();
      EXPECT_NE(text.find("bad at byte 40960"), std::string::npos) << text;
      EXPECT_NE(text.find(std::strerror(error)), std::string::npos) << text;
    }
  }
}

// Fails if a read succeeds although the file shrank in the meantime.
TEST_F(AioFaults, TruncatedFile) {
  const auto engine = Engine::make(
      with_hook([](Transfer& transfer) { return transfer.offset >= 65536 ? 0 : kDo; }));
  Bytes back(bytes.size());
  const auto request = engine->start(job(path, false, back.data(), 0, back.size()));
  engine->wait(*request);
  EXPECT_EQ(request->error(), -1);
  EXPECT_EQ(code_of([&] { request->check(); }), ErrorCode::io);
}

// Fails if there is no fallback to buffered I/O on a file system where open() accepts O_DIRECT but
// direct transfers fail.
TEST_F(AioFaults, RejectedDirectIoFallsBackToTheCache) {
  const auto engine = Engine::make(with_hook([&](Transfer& transfer) -> std::int64_t {
    return (::fcntl(transfer.file, F_GETFL) & O_DIRECT) != 0 ? -EINVAL : kDo;
  }));
  Bytes back(bytes.size());
  run(*engine, job(path, false, back.data(), 5, back.size() - 5));
  EXPECT_TRUE(std::equal(back.begin(), back.end() - 5, bytes.begin() + 5));
  run(*engine, job(folder.file("copy"), true, bytes.data(), 3, bytes.size()));
  EXPECT_EQ(std::filesystem::file_size(folder.file("copy")), bytes.size() + 3);
}

// Fails if the unaligned edges of a write use direct I/O, or are written before its aligned blocks.
TEST_F(AioFaults, EdgesAreWrittenLast) {
  std::vector<std::pair<std::int64_t, bool>> order;
  const auto engine = Engine::make(with_hook([&](Transfer& transfer) {
    order.emplace_back(transfer.offset, (::fcntl(transfer.file, F_GETFL) & O_DIRECT) != 0);
    return kDo;
  }));
  run(*engine, job(path, true, bytes.data(), 100, 40000));
  if (!order.front().second) GTEST_SKIP() << "O_DIRECT is unsupported";
  ASSERT_GE(order.size(), 3U);
  for (std::size_t i = 0; i < order.size(); ++i)
    EXPECT_EQ(order[i].second, i + 2 < order.size()) << i;
}

// Fails if more blocks start after cancellation, or the request never completes.
TEST_F(AioFaults, Cancellation) {
  std::mutex mutex;
  std::condition_variable changed;
  int begun = 0;
  bool go_on = false;
  const auto engine = Engine::make(with_hook([&](Transfer&) {
    std::unique_lock lock(mutex);
    ++begun;
    changed.notify_all();
    changed.wait(lock, [&] { return go_on; });
    return kDo;
  }));
  Bytes back(bytes.size());
  const auto request = engine->start(job(path, false, back.data(), 0, back.size()));
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return begun == 1; });
    request->cancel();
    go_on = true;
    changed.notify_all();
  }
  engine->wait(*request);
  EXPECT_EQ(request->error(), ECANCELED);
  EXPECT_EQ(code_of([&] { request->check(); }), ErrorCode::interrupted);
  EXPECT_EQ(begun, 4);  // blocks that had already been queued
  run(*engine, job(path, false, back.data(), 0, back.size()));
  EXPECT_TRUE(back == bytes);
}

// Fails if a request's memory is released while the kernel may still access it.
TEST_F(AioFaults, MemoryIsKeptUntilCompletion) {
  std::weak_ptr<Bytes> watched;
  bool alive = true;
  const auto engine = Engine::make(with_hook([&](Transfer&) {
    alive = alive && !watched.expired();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return kDo;
  }));
  auto keep = std::make_shared<Bytes>(bytes.size());
  watched = keep;
  auto what = job(path, false, keep->data(), 0, keep->size());
  what.keep = std::move(keep);
  const auto request = engine->start(std::move(what));
  engine->wait(*request);
  EXPECT_TRUE(alive);
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace anyaccel::ops::aio
