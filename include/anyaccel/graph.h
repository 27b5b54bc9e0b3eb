// Graphs: a sequence of device work, captured once and replayed.
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

/// Names a memory pool that graphs may share, as torch's MempoolId_t.
using GraphPool = std::pair<std::uint64_t, std::uint64_t>;

/// A captured sequence of work. Copies share the graph. Not thread-safe: capture and replay one at
/// a time. Tensors made during capture keep their addresses; replay writes to them again, so inputs
/// are changed by `copy_` and never by assignment.
class ANYACCEL_API Graph {
 public:
  enum class State { empty, capturing, captured };

  explicit Graph(std::shared_ptr<sdk::GraphImpl> impl);

  State state() const noexcept;
  /// Starts recording this thread's work (and its backward passes). `invalid_state` when a capture
  /// runs.
  void capture_begin(std::optional<GraphPool> pool = std::nullopt);
  /// Ends recording. `invalid_state` when none runs. A refused op makes it throw and empties the
  /// graph.
  void capture_end();
  /// Runs the captured work again. `invalid_state` before capture.
  void replay();
  /// Forgets the work and gives back its memory; the graph can capture anew.
  void reset();
  /// The pool of this graph, to be given to another `capture_begin`. `invalid_state` before
  /// capture.
  GraphPool pool() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

/// Records the work of a scope into a graph. What `with get_accelerator().capture_to_graph(g):` is
/// in Python. Call `end()` to see errors; the destructor ends the capture too, and discards it
/// while an exception passes.
class ANYACCEL_API GraphCapture {
 public:
  GraphCapture(Accelerator& accelerator, Graph graph, std::optional<GraphPool> pool,
               std::optional<Stream> stream);
  ~GraphCapture() noexcept(false);
  GraphCapture(const GraphCapture&) = delete;
  GraphCapture& operator=(const GraphCapture&) = delete;
  void end();
  /// Ends the capture and forgets what it recorded, as the destructor does while an exception
  /// passes.
  void cancel() noexcept;

 private:
  Graph graph_;
  std::unique_ptr<StreamGuard> stream_;
  int exceptions_;
  bool open_ = true;
};

}  // namespace anyaccel
