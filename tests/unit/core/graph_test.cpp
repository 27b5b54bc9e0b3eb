#include "anyaccel/graph.h"

#include "anyaccel/accelerator.h"
#include "unit/support/expect_error.h"
#include "unit/support/mock_backend.h"

namespace anyaccel {
namespace {

struct FakeGraph final : sdk::GraphImpl {
  std::string log;
  bool fail_end = false;
  void capture_begin(std::optional<GraphPool>) override { log += "begin "; }
  void capture_end() override {
    log += "end ";
    if (fail_end)
      throw Error(ErrorCode::unsupported, "capture_to_graph",
                  {.what = "op nonzero cannot be captured"});
  }
  void replay() override { log += "replay "; }
  void reset() override { log += "reset "; }
};

class GraphTest : public testing::Test {
 protected:
  static sdk::Traits traits() {
    auto traits = test::mock_traits("mock");
    traits.synchronized = true;
    return traits;
  }
  std::shared_ptr<FakeGraph> impl_ = std::make_shared<FakeGraph>();
  Graph graph_{impl_};
  Accelerator accelerator_{std::make_shared<test::MockBackend>(traits())};
};

// Fails if a call that is invalid in the graph's state reaches the backend.
TEST_F(GraphTest, StateIsChecked) {
  EXPECT_ERROR(accelerator_.replay_graph(graph_), invalid_state, "the graph is empty");
  EXPECT_ERROR(graph_.capture_end(), invalid_state, "no capture");
  EXPECT_ERROR(graph_.pool(), invalid_state, "pool");
  auto capture = accelerator_.capture_to_graph(graph_);
  EXPECT_EQ(graph_.state(), Graph::State::capturing);
  EXPECT_ERROR(accelerator_.replay_graph(graph_), invalid_state, "still capturing");
  EXPECT_ERROR(accelerator_.capture_to_graph(graph_), invalid_state, "already capturing");
  capture.end();
  accelerator_.replay_graph(graph_);
  EXPECT_EQ(impl_->log, "begin end replay ");
  EXPECT_ERROR(graph_.pool(), unsupported, "pool");
}

// Fails if a null graph or backend is accepted.
TEST_F(GraphTest, NullIsRejected) {
  EXPECT_ERROR(Graph(nullptr), invalid_argument, "create_graph()");
  EXPECT_ERROR(Accelerator(nullptr), invalid_argument, "the backend is null");
}

// Fails if an exception in the captured scope leaves the graph capturing.
TEST_F(GraphTest, ExceptionAbandonsTheCapture) {
  try {
    const auto capture = accelerator_.capture_to_graph(graph_);
    throw 1;
  } catch (int) {
  }
  EXPECT_EQ(graph_.state(), Graph::State::empty);
  EXPECT_EQ(impl_->log, "begin reset ");
}

// Fails if the guard's destructor swallows the error for an unsupported op, or the graph keeps
// partial work.
TEST_F(GraphTest, FailedCaptureThrowsAndEmptiesTheGraph) {
  impl_->fail_end = true;
  const auto scope = [&] { const auto capture = accelerator_.capture_to_graph(graph_); };
  EXPECT_ERROR(scope(), unsupported, "nonzero");
  EXPECT_EQ(graph_.state(), Graph::State::empty);
  EXPECT_ERROR(graph_.replay(), invalid_state, "the graph is empty");
}

// Fails if cancel() does not discard the captured work.
TEST_F(GraphTest, CancelDiscardsTheCapture) {
  {
    auto capture = accelerator_.capture_to_graph(graph_);
    capture.cancel();
  }
  EXPECT_EQ(graph_.state(), Graph::State::empty);
}

// Fails if a second capture keeps work from the first one.
TEST_F(GraphTest, SecondCaptureReplacesTheFirst) {
  { const auto capture = accelerator_.capture_to_graph(graph_); }
  { const auto capture = accelerator_.capture_to_graph(graph_); }
  EXPECT_EQ(impl_->log, "begin end reset begin end ");
  graph_.reset();
  EXPECT_EQ(graph_.state(), Graph::State::empty);
}

}  // namespace
}  // namespace anyaccel
