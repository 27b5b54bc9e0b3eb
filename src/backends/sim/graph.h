// Graphs. While a stream is captured, its work goes to the capture instead of the worker. A replay
// is queued as one task.
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

/// Work that a graph owns, in the order of submission, which respects the order of all captured
/// streams.
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

/// One capture in progress. Thread-safe, because backward passes run on their own threads.
class Capture {
 public:
  Capture(SimStream& origin, PoolId pool);
  ~Capture();
  SimStream& origin() const noexcept { return *streams_.front(); }
  PoolId pool() const noexcept { return pool_; }
  /// Identifies the graph from the start of the capture until the graph is destroyed.
  const void* work() const noexcept { return work_.get(); }
  void add(std::unique_ptr<Task> task);
  RandomDraw draw(const at::Generator& generator);
  /// Captures `stream` too, because it waits for captured work.
  void join(SimStream& stream);
  /// Ends the capture: releases its streams and returns its work.
  std::shared_ptr<GraphWork> end();

 private:
  const PoolId pool_;
  std::mutex mutex_;
  std::vector<SimStream*> streams_;
  std::shared_ptr<GraphWork> work_ = std::make_shared<GraphWork>();
};

/// Adds `stream` to the capture in which an event was recorded. Throws if that capture has ended.
void join_capture(SimStream& stream, const void* capture);

/// Implements torch's graph interface and AnyAccel's.
class SimGraph {
 public:
  ~SimGraph();
  /// Captures this thread's current stream.
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

/// Registers this device type's graphs with torch (2.12 and later).
void register_graphs();

}  // namespace anyaccel::backends::sim
