// Suite "graphs": each replay runs the captured work exactly once.
#include <cmath>

#include "support.h"

namespace anyaccel::conformance {

namespace {

Graph new_graph(Accelerator& accelerator) {
  return feature([&] { return accelerator.create_graph(); });
}

/// Captures the work of `body` into `graph`.
void capture(Accelerator& accelerator, const Graph& graph, const std::function<void()>& body,
             std::optional<GraphPool> pool = std::nullopt) {
  auto scope = accelerator.capture_to_graph(graph, pool);
  body();
  scope.end();
}

/// A counter on the device. The case captures a graph that increments the counter, so the counter
/// shows how often the graph has been replayed.
struct Counter {
  explicit Counter(Accelerator& accelerator) : value(filled(accelerator, 0)) {}
  void start_anew() { value.zero_(); }
  double read(Accelerator& accelerator) const {
    accelerator.synchronize();
    return first(value);
  }
  at::Tensor value;
};

void replay(Accelerator& accelerator, const Graph& graph, int times = 1) {
  for (int i = 0; i < times; ++i) accelerator.replay_graph(graph);
  accelerator.synchronize();
}

}  // namespace

ANYACCEL_CONFORMANCE_CASE(graphs, replay_repeats_the_work, required) {
  const auto graph = new_graph(accelerator);
  auto x = filled(accelerator, 1, 100);
  at::Tensor y;
  capture(accelerator, graph, [&] { y = x.mul(2).add(1); });
  x.fill_(3);
  replay(accelerator, graph);
  for (const double value : values(y)) expect_equal(value, 7.0, "3 * 2 + 1 by replay");
}

ANYACCEL_CONFORMANCE_CASE(graphs, replay_runs_the_work_once, required) {
  const auto graph = new_graph(accelerator);
  Counter counter(accelerator);
  capture(accelerator, graph, [&] { counter.value.add_(1); });
  counter.start_anew();
  replay(accelerator, graph);
  expect_equal(counter.read(accelerator), 1.0, "a counter after one replay");
}

ANYACCEL_CONFORMANCE_CASE(graphs, replay_is_in_stream_order, required) {
  const auto graph = new_graph(accelerator);
  need_asynchronous(accelerator);
  auto x = filled(accelerator, 1, 100);
  at::Tensor y;
  capture(accelerator, graph, [&] { y = x.mul(2); });
  x.fill_(1);
  replay(accelerator, graph);
  queue_work(accelerator, 60);
  x.fill_(3);
  accelerator.replay_graph(graph);
  const auto after = y.clone();
  accelerator.synchronize();
  for (const double value : values(after))
    expect_equal(value, 6.0, "3 * 2 computed by a replay that was queued after other work");
}

ANYACCEL_CONFORMANCE_CASE(graphs, replay_works_many_times, required) {
  const auto graph = new_graph(accelerator);
  Counter counter(accelerator);
  capture(accelerator, graph, [&] { counter.value.add_(1); });
  counter.start_anew();
  replay(accelerator, graph, 50);
  expect_equal(counter.read(accelerator), 50.0, "a counter after fifty replays");
}

ANYACCEL_CONFORMANCE_CASE(graphs, replay_sees_inputs_that_copy_changed, required) {
  const auto graph = new_graph(accelerator);
  auto x = filled(accelerator, 0, 10);
  at::Tensor y;
  capture(accelerator, graph, [&] { y = x.exp(); });
  for (int i = 1; i < 4; ++i) {
    x.copy_(host_sequence(10).mul(0.1 * i));
    replay(accelerator, graph);
    const auto got = values(y);
    for (int k = 0; k < 10; ++k)
      expect(std::abs(got[k] - std::exp(0.1 * i * k)) < 1e-4 * std::exp(0.1 * i * k),
             "exp of new inputs in a replay");
  }
}

ANYACCEL_CONFORMANCE_CASE(graphs, results_keep_their_addresses, required) {
  const auto graph = new_graph(accelerator);
  const auto x = filled(accelerator, 2, 100);
  at::Tensor y;
  capture(accelerator, graph, [&] { y = x.mul(3); });
  const void* address = y.data_ptr();
  replay(accelerator, graph, 3);
  expect(y.data_ptr() == address, "the address of a graph's result changed at replay");
}

ANYACCEL_CONFORMANCE_CASE(graphs, states_follow_the_capture, required) {
  Graph graph = new_graph(accelerator);
  expect(graph.state() == Graph::State::empty, "the state of a new graph is not empty");
  const auto x = filled(accelerator, 1);
  {
    auto scope = accelerator.capture_to_graph(graph);
    expect(graph.state() == Graph::State::capturing, "the state during a capture is not capturing");
    x.add_(1);
    scope.end();
  }
  expect(graph.state() == Graph::State::captured, "the state after a capture is not captured");
  graph.reset();
  expect(graph.state() == Graph::State::empty, "the state after reset() is not empty");
}

ANYACCEL_CONFORMANCE_CASE(graphs, replay_before_capture_is_refused, required) {
  const auto graph = new_graph(accelerator);
  expect_error(
      ErrorCode::invalid_state, [&] { accelerator.replay_graph(graph); },
      "replay of an empty graph");
}

ANYACCEL_CONFORMANCE_CASE(graphs, replay_after_reset_is_refused, required) {
  Graph graph = new_graph(accelerator);
  const auto x = filled(accelerator, 1);
  capture(accelerator, graph, [&] { x.add_(1); });
  graph.reset();
  expect_error(
      ErrorCode::invalid_state, [&] { accelerator.replay_graph(graph); }, "replay after reset()");
}

ANYACCEL_CONFORMANCE_CASE(graphs, two_graphs_are_apart, required) {
  const auto one = new_graph(accelerator), two = new_graph(accelerator);
  Counter a(accelerator), b(accelerator);
  capture(accelerator, one, [&] { a.value.add_(1); });
  capture(accelerator, two, [&] { b.value.add_(1); });
  a.start_anew();
  b.start_anew();
  replay(accelerator, one, 2);
  expect_equal(a.read(accelerator), 2.0, "the first graph's counter");
  expect_equal(b.read(accelerator), 0.0, "the second graph's counter, which did not run");
}

ANYACCEL_CONFORMANCE_CASE(graphs, copies_share_the_graph, required) {
  const auto graph = new_graph(accelerator);
  const Graph copy = graph;
  Counter counter(accelerator);
  capture(accelerator, graph, [&] { counter.value.add_(1); });
  counter.start_anew();
  replay(accelerator, copy);
  expect_equal(counter.read(accelerator), 1.0, "a counter after the replay of a copy");
}

ANYACCEL_CONFORMANCE_CASE(graphs, graph_can_capture_anew, required) {
  const auto graph = new_graph(accelerator);
  Counter a(accelerator), b(accelerator);
  capture(accelerator, graph, [&] { a.value.add_(1); });
  capture(accelerator, graph, [&] { b.value.add_(1); });
  a.start_anew();
  b.start_anew();
  replay(accelerator, graph);
  expect_equal(a.read(accelerator), 0.0, "the first capture's counter after a second capture");
  expect_equal(b.read(accelerator), 1.0, "the second capture's counter");
}

ANYACCEL_CONFORMANCE_CASE(graphs, reset_gives_memory_back, required) {
  constexpr std::int64_t kElements = 4 << 20;
  Graph graph = new_graph(accelerator);
  const auto before = allocated(accelerator);
  {
    const auto x = filled(accelerator, 1, kElements);
    at::Tensor y;
    capture(accelerator, graph, [&] { y = x.mul(2).add(1); });
    replay(accelerator, graph);
  }
  graph.reset();
  accelerator.synchronize();
  const auto left = allocated(accelerator) - before;
  expect(left <= 4 << 20, std::to_string(left) + " bytes are still allocated after reset()");
}

ANYACCEL_CONFORMANCE_CASE(graphs, work_after_capture_is_not_recorded, required) {
  const auto graph = new_graph(accelerator);
  Counter inside(accelerator), outside(accelerator);
  capture(accelerator, graph, [&] { inside.value.add_(1); });
  outside.value.add_(10);
  inside.start_anew();
  outside.start_anew();
  replay(accelerator, graph);
  expect_equal(outside.read(accelerator), 0.0, "the counter of work done after the capture");
  expect_equal(inside.read(accelerator), 1.0, "the counter of the captured work");
}

ANYACCEL_CONFORMANCE_CASE(graphs, capturing_is_told, required) {
  const auto graph = new_graph(accelerator);
  const auto x = filled(accelerator, 1);
  bool inside = false;
  capture(accelerator, graph, [&] {
    inside = accelerator.is_current_stream_capturing();
    x.add_(1);
  });
  expect(inside, "is_current_stream_capturing() is false during a capture");
}

ANYACCEL_CONFORMANCE_CASE(graphs, capturing_is_not_told_outside, required) {
  expect(!accelerator.is_current_stream_capturing(),
         "is_current_stream_capturing() is true without a capture");
  const auto graph = new_graph(accelerator);
  const auto x = filled(accelerator, 1);
  capture(accelerator, graph, [&] { x.add_(1); });
  expect(!accelerator.is_current_stream_capturing(),
         "is_current_stream_capturing() is true after a capture");
}

ANYACCEL_CONFORMANCE_CASE(graphs, exception_abandons_the_capture, required) {
  const auto graph = new_graph(accelerator);
  const auto x = filled(accelerator, 1);
  try {
    const auto scope = accelerator.capture_to_graph(graph);
    x.add_(1);
    throw Failure("thrown by the case");
  } catch (const Failure&) {  // expected
  }
  expect(graph.state() == Graph::State::empty,
         "a graph is not empty after an exception during its capture");
  expect(!accelerator.is_current_stream_capturing(),
         "the capture is still active after an exception");
  expect_equal(first(filled(accelerator, 2).mul(3)), 6.0, "work after an abandoned capture");
}

ANYACCEL_CONFORMANCE_CASE(graphs, second_capture_on_one_graph_is_refused, required) {
  Graph graph = new_graph(accelerator);
  const auto x = filled(accelerator, 1);
  auto scope = accelerator.capture_to_graph(graph);
  x.add_(1);
  expect_error(
      ErrorCode::invalid_state, [&] { graph.capture_begin(); }, "a nested capture");
  scope.end();
}

ANYACCEL_CONFORMANCE_CASE(graphs, capture_on_a_given_stream, required) {
  const auto graph = new_graph(accelerator);
  const auto stream = feature([&] { return accelerator.Stream(); });
  Counter counter(accelerator);
  accelerator.synchronize();
  {
    auto scope = accelerator.capture_to_graph(graph, std::nullopt, stream);
    expect(accelerator.current_stream() == stream, "the capture runs on another stream");
    counter.value.add_(1);
    scope.end();
  }
  counter.start_anew();
  replay(accelerator, graph);
  expect_equal(counter.read(accelerator), 1.0, "a counter after a replay");
}

ANYACCEL_CONFORMANCE_CASE(graphs, given_pool_is_kept, recommended) {
  const auto one = new_graph(accelerator), two = new_graph(accelerator);
  const auto x = filled(accelerator, 1);
  capture(accelerator, one, [&] { x.add_(1); });
  const auto pool = feature([&] { return one.pool(); });
  capture(
      accelerator, two, [&] { x.add_(1); }, pool);
  expect(two.pool() == pool, "the graph does not use the pool that it was given");
}

ANYACCEL_CONFORMANCE_CASE(graphs, pool_before_capture_is_refused, required) {
  const auto graph = new_graph(accelerator);
  expect_error(
      ErrorCode::invalid_state, [&] { static_cast<void>(graph.pool()); },
      "pool() of an empty graph");
}

ANYACCEL_CONFORMANCE_CASE(graphs, backward_passes_are_captured, recommended) {
  const auto graph = new_graph(accelerator);
  auto weight = filled(accelerator, 2, 8).set_requires_grad(true);
  auto x = filled(accelerator, 3, 8);
  // The first backward pass, which allocates the gradient, must be outside the capture.
  weight.mul(x).sum().backward();
  capture(accelerator, graph, [&] {
    weight.mutable_grad().zero_();
    weight.mul(x).sum().backward();
  });
  x.fill_(5);
  replay(accelerator, graph, 2);
  for (const double value : values(weight.grad()))
    expect_equal(value, 5.0, "a gradient computed by a replay");
}

ANYACCEL_CONFORMANCE_CASE(graphs, random_numbers_are_drawn_anew, recommended) {
  const auto graph = new_graph(accelerator);
  auto x = filled(accelerator, 0, 64);
  capture(accelerator, graph, [&] { x.uniform_(); });
  replay(accelerator, graph);
  const auto a = values(x);
  replay(accelerator, graph);
  expect(values(x) != a, "two replays draw the same random numbers");
}

}  // namespace anyaccel::conformance
