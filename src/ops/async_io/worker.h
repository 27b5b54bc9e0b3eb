// One thread of the engine with its queue and blocks.
#pragma once

#include <future>
#include <list>

#include "ops/async_io/engine.h"

namespace anyaccel::ops::aio {

class Worker {
 public:
  /// Starts the thread and waits until it has its queue; throws what making it threw.
  explicit Worker(Engine& engine);
  ~Worker();
  void add(std::shared_ptr<Request> request, Range range);
  const std::string& queue_name() const noexcept { return queue_name_; }
  const std::string& queue_reason() const noexcept { return queue_reason_; }

 private:
  /// A part of a request that this worker does.
  struct Slice {
    std::shared_ptr<Request> request;
    Range left;                // not yet cut into blocks
    int under_way = 0;         // blocks
    std::vector<Range> edges;  // done after the whole request's other blocks
    bool last = false;         // does edges, and then ends the request
  };
  /// A block on its way through the queue.
  struct Block : Transfer {
    Slice* slice = nullptr;
    Range wanted;            // what of the file the caller asked for
    std::int64_t start = 0;  // where the transfer began
    char* bounce = nullptr;  // aligned memory in the place of the caller's
    bool direct = false;
  };
  using Memory = std::unique_ptr<char, void (*)(void*)>;

  void run(std::promise<void>& ready);
  void serve();
  bool take_new();
  void fill();
  void send();
  bool next_piece(Slice& slice, Range& piece);
  void prepare(Slice& slice, const Range& piece);
  void settle(Block& block);
  static void fail(Request& request, int error, std::int64_t at);
  void release(Block& block);
  bool end_slice(Slice& slice);
  char* take_bounce();

  Engine& engine_;
  const std::int64_t block_bytes_;
  std::string queue_name_;
  std::string queue_reason_;
  std::unique_ptr<Queue> queue_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::vector<Slice> new_;
  bool stopping_ = false;
  // Of the thread alone:
  std::list<Slice> slices_;
  std::vector<Block> blocks_;
  std::vector<Block*> free_;
  std::vector<Transfer*> ready_;
  std::vector<Transfer*> done_;
  std::size_t under_way_ = 0;
  std::vector<Memory> bounces_;
  std::vector<char*> free_bounces_;
  std::thread thread_;
};

}  // namespace anyaccel::ops::aio
