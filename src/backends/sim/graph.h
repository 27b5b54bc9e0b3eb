// Graphs: while a stream is captured, its work goes to the capture and not to its worker; a replay
// is one piece of work.
#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "backends/sim/allocator.h"
#include "backends/sim/generator.h"
#include "backends/sim/stream.h"

namespace anyaccel::backends::sim {

/// Work that a graph owns, in an order that all its streams agree with: the one in which it was
/// given.
struct GraphWork {
  GraphWork() = default;
  GraphWork(const GraphWork&) = delete;
  GraphWork& operator=(const GraphWork&) = delete;
  ~GraphWork();

  struct Random {
    at::Generator generator;
    std::shared_ptr<ReplayRandom> start;
    std::uint64_t count = 0;
  };
  std::vector<std::unique_ptr<Task>> tasks;
  std::vector<Random> random;
};

/// One capture in progress. Thread-safe: backward passes come from threads of their own.
class Capture {
 public:
  Capture(SimStream& origin, PoolId pool);
  ~Capture();
  SimStream& origin() const noexcept { return *streams_.front(); }
  PoolId pool() const noexcept { return pool_; }
  /// A name of the graph, the same from the capture's begin to the graph's end.
  const void* work() const noexcept { return work_.get(); }
  void add(std::unique_ptr<Task> task);
  RandomDraw draw(const at::Generator& generator);
  /// `stream` waits for captured work, so its own work is captured too.
  void join(SimStream& stream);
  /// Gives the streams back and the work away.
  std::shared_ptr<GraphWork> end();

 private:
  const PoolId pool_;
  std::mutex mutex_;
  std::vector<SimStream*> streams_;
  std::shared_ptr<GraphWork> work_ = std::make_shared<GraphWork>();
};

/// Joins the capture that an event was recorded in. Throws when that capture is over.
void join_capture(SimStream& stream, const void* capture);

/// What both torch's and our graph interface use.
class SimGraph {
 public:
  ~SimGraph();
  /// Captures this thread's stream on its device.
  void capture_begin(std::pair<std::uint64_t, std::uint64_t> pool);
  void capture_end();
  void replay();
  void reset() noexcept;
  std::pair<std::uint64_t, std::uint64_t> pool() const noexcept { return {0, pool_}; }

 private:
  std::unique_ptr<Capture> capture_;
  std::shared_ptr<GraphWork> work_;
  Device* device_ = nullptr;
  PoolId pool_ = 0;
};

/// Tells torch (2.12 and newer) how to make graphs of this device.
void register_graphs();

}  // namespace anyaccel::backends::sim
