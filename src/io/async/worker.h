// A worker thread of the engine, with its queue and blocks.
#pragma once

#include <chrono>
#include <future>
#include <list>

#include "io/async/engine.h"

namespace anyaccel::ops::aio {

class Worker {
 public:
  /// Starts the thread and waits until it has created its queue; rethrows the thread's exception.
  explicit Worker(Engine& engine);
  ~Worker();
  struct Slice;
  using Slices = std::list<Slice>;
  /// Appends a slice of a request.
  static void add_slice(Slices& slices, std::shared_ptr<Request> request, Range range);
  /// Takes ownership of the first slice.
  void take_first(Slices& slices) noexcept;
  const std::string& queue_name() const noexcept { return queue_name_; }
  const std::string& queue_reason() const noexcept { return queue_reason_; }

  /// The part of a request that one worker processes.
  struct Slice {
    std::shared_ptr<Request> request;
    Range left;                // range not yet split into blocks
    int under_way = 0;         // number of in-flight blocks
    std::vector<Range> edges;  // ranges that are written after all other blocks of the request
    bool last = false;         // whether this slice writes the edges and then completes the request
  };

 private:
  using Clock = std::chrono::steady_clock;
  /// A block in progress.
  struct Block : Transfer {
    Slice* slice = nullptr;
    Range wanted;            // the part of the file that the caller requested
    std::int64_t start = 0;  // offset at which the transfer began
    char* bounce = nullptr;  // aligned buffer that replaces the caller's memory
    bool direct = false;
    bool claimed =
        false;  // whether `claim` and `claim_direct` are registered in the file's WriteConflicts
    Range claim;
    bool claim_direct = false;
    bool in_system = false;
    Clock::time_point
        refused;  // time of the first refusal since the last success; the epoch if none
  };
  using Memory = std::unique_ptr<char, void (*)(void*)>;
  /// Memory of a broken queue. It is never freed, because the system may still access it.
  struct Lost {
    Slices slices;
    std::vector<Memory> bounces;
    std::vector<Block> blocks;
    Lost* next = nullptr;
  };

  void run(std::promise<void>& ready);
  void serve() noexcept;
  bool take_new();
  void turn();
  void fill();
  void send();
  void rest();
  void collect() noexcept;
  void recover() noexcept;
  void lose() noexcept;
  void fail_slices(int error, const char* why) noexcept;
  bool claim(Block& block);
  static void unclaim(Block& block) noexcept;
  bool give_up(Block& block);
  void again(Block& block);
  bool next_piece(Slice& slice, Range& piece);
  void prepare(Slice& slice, const Range& piece);
  void settle(Block& block);
  static void fail(Request& request, int error, std::int64_t at,
                   const char* why = nullptr) noexcept;
  void release(Block& block) noexcept;
  bool end_slice(Slice& slice);
  char* take_bounce();

  Engine& engine_;
  const std::int64_t block_bytes_;
  std::string queue_name_;
  std::string queue_reason_;
  std::unique_ptr<Queue> queue_;
  std::mutex mutex_;
  std::condition_variable work_;
  Slices new_;
  bool stopping_ = false;
  // The members below are used only by this thread.
  Slices slices_;
  std::vector<Block> blocks_;
  std::vector<Block*> free_;
  std::vector<Block*> ready_;     // blocks to submit, in the order of the slices
  std::vector<Transfer*> batch_;  // the blocks of ready_ that have registered their claims
  std::vector<Transfer*> done_;
  bool reaping_ = false;   // the queue is filling done_
  bool refusals_ = false;  // some ready blocks were just refused
  bool broken_ = false;    // the queue is unusable; why_broken_ has the reason
  std::string why_broken_;
  std::unique_ptr<Lost> lost_;
  std::size_t under_way_ = 0;
  std::vector<Memory> bounces_;
  std::vector<char*> free_bounces_;
  std::thread thread_;
};

}  // namespace anyaccel::ops::aio
