#include "anyaccel/graph.h"

#include <exception>

#include "anyaccel/accelerator.h"
#include "anyaccel/sdk/backend.h"
#include "core/checks.h"

namespace anyaccel {

struct Graph::Shared {
  std::shared_ptr<sdk::GraphImpl> impl;
  State state = State::empty;
};

namespace {

void require(bool holds, const char* where, const char* what, const char* hint) {
  if (!holds) throw Error(ErrorCode::invalid_state, where, {.what = what, .hint = hint});
}

}  // namespace

Graph::Graph(std::shared_ptr<sdk::GraphImpl> impl) : shared_(std::make_shared<Shared>()) {
  if (!impl)
    throw Error(ErrorCode::invalid_argument, "Graph",
                {.what = "the graph is null", .hint = "create one with create_graph()"});
  shared_->impl = std::move(impl);
}

Graph::State Graph::state() const noexcept { return shared_->state; }

void Graph::capture_begin(std::optional<GraphPool> pool) {
  require(shared_->state != State::capturing, "capture_to_graph", "this graph is already capturing",
          "end that capture first");
  if (shared_->state == State::captured) reset();
  translated("capture_to_graph", [&] { shared_->impl->capture_begin(pool); });
  shared_->state = State::capturing;
}

void Graph::capture_end() {
  require(shared_->state == State::capturing, "capture_to_graph",
          "no capture of this graph is in progress", "begin one with capture_to_graph()");
  try {
    translated("capture_to_graph", [&] { shared_->impl->capture_end(); });
    shared_->state = State::captured;
  } catch (...) {
    reset();
    throw;
  }
}

void Graph::replay() {
  require(
      shared_->state == State::captured, "replay_graph",
      shared_->state == State::capturing ? "the graph is still capturing" : "the graph is empty",
      "capture work with capture_to_graph() first");
  translated("replay_graph", [&] { shared_->impl->replay(); });
}

void Graph::reset() {
  shared_->state = State::empty;
  shared_->impl->reset();
}

GraphPool Graph::pool() const {
  require(shared_->state != State::empty, "Graph::pool", "an empty graph has no memory pool",
          "capture work first");
  return shared_->impl->pool();
}

GraphCapture::GraphCapture(Accelerator& accelerator, Graph graph, std::optional<GraphPool> pool,
                           std::optional<Stream> stream)
    : graph_(std::move(graph)), exceptions_(std::uncaught_exceptions()) {
  if (!accelerator.is_synchronized_device()) {
    // In-flight work must not become part of the capture, and the default stream cannot be
    // captured.
    accelerator.synchronize();
    if (!stream) stream = accelerator.Stream();
  }
  if (stream) stream_ = std::make_unique<StreamGuard>(accelerator, *stream);
  graph_.capture_begin(pool);
}

GraphCapture::~GraphCapture() noexcept(false) {
  if (!open_) return;
  if (std::uncaught_exceptions() > exceptions_) {
    cancel();
  } else {
    end();
  }
}

void GraphCapture::end() {
  if (!open_) return;
  open_ = false;
  graph_.capture_end();
  stream_.reset();
}

void GraphCapture::cancel() noexcept {
  if (!open_) return;
  open_ = false;
  try {
    graph_.reset();
  } catch (...) {  // a lost device; the next call on it reports the error
  }
  stream_.reset();
}

Graph Accelerator::create_graph() { return Graph(backend_->new_graph()); }

GraphCapture Accelerator::capture_to_graph(const Graph& graph, std::optional<GraphPool> pool,
                                           std::optional<::anyaccel::Stream> stream) {
  return {*this, graph, pool, stream};
}

void Accelerator::replay_graph(const Graph& graph) { Graph(graph).replay(); }

bool Accelerator::is_current_stream_capturing() const {
  return backend_->is_current_stream_capturing();
}

}  // namespace anyaccel
