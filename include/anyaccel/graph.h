// Graphs: device work that is captured once and replayed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "anyaccel/export.h"
#include "anyaccel/stream.h"

namespace anyaccel {

namespace sdk {
class GraphImpl;
}

/// Identifies a memory pool that graphs can share, like torch's MempoolId_t.
using GraphPool = std::pair<std::uint64_t, std::uint64_t>;

/// A captured sequence of work. Copies refer to the same graph.
///
/// Tensors created during the capture keep their addresses, and each replay overwrites them. Change
/// inputs in place with `copy_()`; assigning a new tensor has no effect on the graph.
///
/// Not thread-safe. Only one capture or replay may run at a time.
///
///     Graph graph = accelerator.create_graph();
///     {
///       auto capture = accelerator.capture_to_graph(graph);
///       y = model->forward(x);
///       capture.end();
///     }
///     x.copy_(next_input);
///     graph.replay();  // y is now the result for next_input
class ANYACCEL_API Graph {
 public:
  /// State of the graph.
  enum class State { empty, capturing, captured };

  /// For backends. Programs call `Accelerator::create_graph()`.
  explicit Graph(std::shared_ptr<sdk::GraphImpl> impl);

  /// Current state. Copies share it.
  State state() const noexcept;
  /// Start capturing this thread's work, including its backward passes. `pool`: another graph's
  /// memory pool, which this graph then shares. An earlier capture of this graph is discarded.
  /// Throws `invalid_state` if the graph is already capturing.
  void capture_begin(std::optional<GraphPool> pool = std::nullopt);
  /// End the capture. Throws `invalid_state` if the graph is not capturing. If an op cannot be
  /// captured, throws that op's error and leaves the graph empty.
  void capture_end();
  /// Run the captured work again. Throws `invalid_state` if nothing was captured.
  void replay();
  /// Discard the captured work and free its memory. The graph can then capture again.
  void reset();
  /// Return this graph's memory pool, to pass to another `capture_begin()`. Throws `invalid_state`
  /// if the graph is empty.
  GraphPool pool() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

/// Captures the work done in a scope into a graph. The counterpart of Python's `with
/// get_accelerator().capture_to_graph(g):`.
///
/// Call `end()` to receive errors before the end of the scope. Otherwise the destructor ends the
/// capture and may throw. If the scope is left by an exception, the destructor discards the
/// capture. Unless the device is synchronous, the constructor waits for the device and, if no
/// `stream` is given, captures on a new stream.
class ANYACCEL_API GraphCapture {
 public:
  GraphCapture(Accelerator& accelerator, Graph graph, std::optional<GraphPool> pool,
               std::optional<Stream> stream);
  ~GraphCapture() noexcept(false);
  GraphCapture(const GraphCapture&) = delete;
  GraphCapture& operator=(const GraphCapture&) = delete;
  /// End the capture. A second call is a no-op. Throws the same errors as `Graph::capture_end()`.
  void end();
  /// End the capture and discard the recorded work, as the destructor does during stack unwinding.
  void cancel() noexcept;

 private:
  Graph graph_;
  std::unique_ptr<StreamGuard> stream_;
  int exceptions_;
  bool open_ = true;
};

}  // namespace anyaccel
