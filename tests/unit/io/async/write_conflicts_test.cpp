// Tests concurrent writes to adjacent ranges, with real files and with a queue that reorders them.
#include <algorithm>
#include <mutex>
#include <thread>

#include "unit/io/async/support.h"

namespace anyaccel::ops::aio {
namespace {

/// All transfers that are in flight in a test's queues. Counts how often a direct write and a
/// buffered write were in flight close to each other.
struct InFlight {
  std::mutex mutex;
  std::vector<std::pair<Transfer*, bool>> transfers;  // the flag is true for direct I/O
  std::minstd_rand random{3};
  int mixed = 0;
  int direct = 0, cached = 0;

  void add(Transfer* transfer) {
    const std::lock_guard lock(mutex);
    const bool direct_one = (::fcntl(transfer->file, F_GETFL) & O_DIRECT) != 0;
    ++(direct_one ? direct : cached);
    for (const auto& [other, other_direct] : transfers)
      mixed +=
          other_direct != direct_one && std::abs(other->offset - transfer->offset) < (64 << 10);
    transfers.emplace_back(transfer, direct_one);
  }
  void remove(Transfer* transfer) {
    const std::lock_guard lock(mutex);
    std::erase_if(transfers, [&](const auto& entry) { return entry.first == transfer; });
  }
  std::size_t any(std::size_t count) {
    const std::lock_guard lock(mutex);
    return random() % count;
  }
};

/// A queue that holds transfers and performs them in random order when results are requested.
class SlowQueue final : public Queue {
 public:
  explicit SlowQueue(InFlight& all) : all_(all) {}
  const char* name() const noexcept override { return "slow"; }
  std::size_t submit(Transfer* const* transfers, std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i) all_.add(transfers[i]);
    held_.insert(held_.end(), transfers, transfers + count);
    return count;
  }
  void reap(std::size_t least, std::vector<Transfer*>& done) override {
    least = std::min(least, held_.size());
    for (std::size_t i = 0; i < least; ++i) {
      const auto place = held_.begin() + static_cast<std::ptrdiff_t>(all_.any(held_.size()));
      auto* transfer = *place;
      held_.erase(place);
      std::this_thread::yield();
      const auto moved =
          ::pwrite(transfer->file, transfer->memory, transfer->bytes, transfer->offset);
      transfer->result = moved < 0 ? -errno : moved;
      all_.remove(transfer);
      done.push_back(transfer);
    }
  }

 private:
  InFlight& all_;
  std::vector<Transfer*> held_;
};

struct Piece {
  std::size_t begin, end;
};

/// Splits a range of bytes at random positions and shuffles the parts.
std::vector<Piece> cut(std::size_t bytes, std::size_t most, std::minstd_rand& random) {
  std::vector<Piece> out;
  for (std::size_t at = 0; at < bytes;) {
    const auto end = std::min(bytes, at + 1 + random() % most);
    out.push_back({at, end});
    at = end;
  }
  std::shuffle(out.begin(), out.end(), random);
  return out;
}

Bytes get_directly(const std::string& path, std::size_t bytes) {
  Bytes out(bytes);
  const auto engine = Engine::make({.queue_depth = 4});
  run(*engine, job(path, false, out.data(), 0, bytes));
  return out;
}

/// Writes all parts concurrently through several engines, next to existing data. Verifies the file
/// with buffered and direct reads.
void write_pieces(const std::string& path, const std::vector<std::shared_ptr<Engine>>& engines,
                  std::minstd_rand& random, std::size_t most) {
  const std::size_t bytes = 200000 + random() % 100000,
                    before = random() % 2 != 0 ? 0 : random() % 300000;
  auto expected = random_bytes(before, static_cast<unsigned>(random()));
  put(path, expected);
  auto source = random_bytes(bytes, static_cast<unsigned>(random()));
  const std::size_t start = random() % 10000;
  if (expected.size() < start + bytes) expected.resize(start + bytes);
  std::copy(source.begin(), source.end(), expected.begin() + static_cast<std::ptrdiff_t>(start));
  std::vector<std::pair<Engine*, std::shared_ptr<Request>>> requests;
  for (const auto& piece : cut(bytes, most, random)) {
    auto& engine = *engines[random() % engines.size()];
    requests.emplace_back(&engine, engine.start(job(path, true, source.data() + piece.begin,
                                                    static_cast<std::int64_t>(start + piece.begin),
                                                    piece.end - piece.begin)));
  }
  for (const auto& [engine, request] : requests) {
    engine->wait(*request);
    EXPECT_NO_THROW(request->check());
  }
  ASSERT_TRUE(get(path) == expected);
  ASSERT_TRUE(get_directly(path, expected.size()) == expected);
}

// Fails if concurrent writes to the same page overwrite each other, on any queue or across engines.
TEST(AioWriteConflicts, RandomAdjacentWrites) {
  const Folder folder;
  std::minstd_rand random(11);
  for (const char* queue : {"io_uring", "libaio", "threads"}) {
    std::vector<std::shared_ptr<Engine>> engines;
    try {
      for (const int workers : {1, 2})
        engines.push_back(Engine::make({.block_bytes = 8192,
                                        .queue_depth = 8,
                                        .overlap_events = true,
                                        .workers = workers,
                                        .queue = queue}));
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::unavailable);
      continue;
    }
    for (int i = 0; i < 15; ++i)
      write_pieces(folder.file("data"), engines, random, i % 2 != 0 ? 3000 : 40000);
  }
}

// Fails if a buffered write is in flight close to a direct one. The page cache may hold both ranges
// in one folio, and would then overwrite the direct write with stale data.
TEST(AioWriteConflicts, CachedAndDirectWritesAreSeparated) {
  const Folder folder;
  InFlight all;
  std::minstd_rand random(5);
  std::vector<std::shared_ptr<Engine>> engines;
  for (const int workers : {1, 2}) {
    Options options{
        .block_bytes = 4096, .queue_depth = 6, .overlap_events = true, .workers = workers};
    options.make_queue = [&](unsigned) {
      return Choice{std::make_unique<SlowQueue>(all), "a test's"};
    };
    engines.push_back(Engine::make(options));
  }
  for (int i = 0; i < 10; ++i) write_pieces(folder.file("data"), engines, random, 20000);
  if (all.direct == 0) GTEST_SKIP() << "O_DIRECT is unsupported";
  EXPECT_GT(all.cached, 0);
  EXPECT_EQ(all.mixed, 0);
}

}  // namespace
}  // namespace anyaccel::ops::aio
