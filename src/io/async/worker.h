// One thread of the engine with its queue and blocks.
#pragma once

#include <chrono>
#include <future>
#include <list>

#include "io/async/engine.h"

namespace anyaccel::ops::aio {

class Worker {
 public:
  /// Starts the thread and waits until it has its queue; throws what making it threw.
  explicit Worker(Engine& engine);
  ~Worker();
  struct Slice;
  using Slices = std::list<Slice>;
  /// Appends a part of a request.
  static void add_slice(Slices& slices, std::shared_ptr<Request> request, Range range);
  /// Takes the first of the slices over.
  void take_first(Slices& slices) noexcept;
  const std::string& queue_name() const noexcept { return queue_name_; }
  const std::string& queue_reason() const noexcept { return queue_reason_; }

  /// A part of a request that one worker does.
  struct Slice {
    std::shared_ptr<Request> request;
    Range left;                // not yet cut into blocks
    int under_way = 0;         // blocks
    std::vector<Range> edges;  // done after the whole request's other blocks
    bool last = false;         // does edges, and then ends the request
  };

 private:
  using Clock = std::chrono::steady_clock;
  /// A block on its way through the queue.
  struct Block : Transfer {
    Slice* slice = nullptr;
    Range wanted;            // what of the file the caller asked for
    std::int64_t start = 0;  // where the transfer began
    char* bounce = nullptr;  // aligned memory in the place of the caller's
    bool direct = false;
    bool claimed = false;  // in the file's WriteConflicts; as `claim`, `claim_direct`
    Range claim;
    bool claim_direct = false;
    bool in_system = false;
    Clock::time_point refused;  // since when without an end; the epoch when it was not
  };
  using Memory = std::unique_ptr<char, void (*)(void*)>;
  /// What a queue that broke had: the system may go on using it, so it is never freed.
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
  // Of the thread alone:
  Slices slices_;
  std::vector<Block> blocks_;
  std::vector<Block*> free_;
  std::vector<Block*> ready_;     // in the order of their files
  std::vector<Transfer*> batch_;  // of those, with their claims
  std::vector<Transfer*> done_;
  bool reaping_ = false;   // done_ is what the queue gives now
  bool refusals_ = false;  // what is ready was refused just now
  bool broken_ = false;    // the queue, with the reason
  std::string why_broken_;
  std::unique_ptr<Lost> lost_;
  std::size_t under_way_ = 0;
  std::vector<Memory> bounces_;
  std::vector<char*> free_bounces_;
  std::thread thread_;
};

}  // namespace anyaccel::ops::aio
