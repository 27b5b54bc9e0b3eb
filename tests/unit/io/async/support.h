// Helper functions and a fake queue for tests of the async_io engine.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "anyaccel/error.h"
#include "io/async/engine.h"
#include "test_paths.h"

namespace anyaccel::ops::aio {

/// A temporary folder on the disk that contains the build, because /tmp is often in memory.
class Folder {
 public:
  Folder() {
    std::string pattern = std::string(ANYACCEL_BUILD_DIR) + "/aio_test_XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no folder for files");
    path_ = pattern;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

using Bytes = std::vector<char>;

inline Bytes random_bytes(std::size_t count, unsigned seed) {
  std::minstd_rand random(seed);
  Bytes out(count);
  for (auto& byte : out) byte = static_cast<char>(random() >> 8);
  return out;
}

inline void put(const std::string& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

inline Bytes get(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline Job job(const std::string& path, bool write, char* memory, std::int64_t offset,
               std::size_t bytes) {
  return {.file = File::open(path, write),
          .write = write,
          .memory = memory,
          .range = {offset, offset + static_cast<std::int64_t>(bytes)}};
}

/// Starts a request, waits for it, and throws its error if it fails.
inline void run(Engine& engine, Job what) {
  const auto request = engine.start(std::move(what));
  engine.wait(*request);
  request->check();
}

/// Performs transfers synchronously. The hook may modify a transfer. If the hook returns anything
/// but `kDo`, the transfer is not performed, and its result is the hook's return value.
class FakeQueue final : public Queue {
 public:
  static constexpr std::int64_t kDo = 1LL << 40;
  using Hook = std::function<std::int64_t(Transfer&)>;
  explicit FakeQueue(Hook hook) : hook_(std::move(hook)) {}
  const char* name() const noexcept override { return "fake"; }
  std::size_t submit(Transfer* const* transfers, std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i) {
      auto& transfer = *transfers[i];
      const auto bytes = transfer.bytes;
      transfer.result = hook_(transfer);
      if (transfer.result == kDo) {
        const auto moved =
            transfer.write
                ? ::pwrite(transfer.file, transfer.memory, transfer.bytes, transfer.offset)
                : ::pread(transfer.file, transfer.memory, transfer.bytes, transfer.offset);
        transfer.result = moved < 0 ? -errno : moved;
      }
      transfer.bytes = bytes;
      done_.push_back(&transfer);
    }
    return count;
  }
  void reap(std::size_t, std::vector<Transfer*>& done) override {
    done.insert(done.end(), done_.begin(), done_.end());
    done_.clear();
  }

 private:
  Hook hook_;
  std::vector<Transfer*> done_;
};

inline Options with_hook(FakeQueue::Hook hook) {
  Options out;
  out.block_bytes = 8192;
  out.queue_depth = 4;
  out.overlap_events = true;
  out.make_queue = [hook = std::move(hook)](unsigned) {
    return Choice{std::make_unique<FakeQueue>(hook), "a test's"};
  };
  return out;
}

inline ErrorCode code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::internal;
}

}  // namespace anyaccel::ops::aio
