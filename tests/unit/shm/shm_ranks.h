// Ranks for tests of collectives: forked processes that exchange data in memory allocated before
// the fork.
#pragma once

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "anyaccel/error.h"
#include "comm/shm/communicator.h"

namespace anyaccel::ops::shm {

/// Exchanges strings between ranks that have no other connection yet. Create it before fork().
class Meeting {
 public:
  explicit Meeting(int size) : size_(size) {
    table_ = static_cast<Table*>(
        ::mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  }
  ~Meeting() { ::munmap(table_, sizeof(Table)); }
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  /// Throws if a rank does not arrive within `most` milliseconds, for example because it was
  /// killed.
  Exchange exchange(int rank, int most = 20000) {
    return [this, rank, most, step = 0](const std::string& mine) mutable {
      auto& row = table_->rows[step++];
      std::strncpy(row.text[rank], mine.c_str(), kMaxText);
      row.arrived.fetch_add(1);
      for (int i = 0; row.arrived.load() < size_; ++i) {
        if (i == most) throw Error(ErrorCode::timeout, "exchange", {.what = "a rank did not come"});
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      std::vector<std::string> all;
      for (int other = 0; other < size_; ++other) all.emplace_back(row.text[other]);
      return all;
    };
  }
  std::atomic<int>& counter() { return table_->counter; }

 private:
  struct Row {
    std::atomic<int> arrived;
    char text[8][kMaxText + 1];
  };
  struct Table {
    Row rows[16];
    std::atomic<int> counter;
  };
  Table* table_;
  int size_;
};

/// Runs `body(rank)` in one process per rank and returns their process ids. The exit status is the
/// result of `body`, or 99 after an exception.
inline std::vector<pid_t> start_ranks(int size, const std::function<int(int)>& body) {
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    const auto child = ::fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    int status = 99;
    try {
      status = body(rank);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    }
    ::_exit(status);
  }
  return children;
}

/// Returns the exit status, or the negated signal number.
inline int end_of(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/// Returns 100 plus the code of the error that `body` throws, or 0 if it does not throw.
inline int code_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return 100 + static_cast<int>(error.code());
  }
  return 0;
}

inline int code_of(ErrorCode code) { return 100 + static_cast<int>(code); }

}  // namespace anyaccel::ops::shm
