#include "backends/sim/graph.h"

#include <torch/headeronly/version.h>

#include <algorithm>
#include <set>

#include "backends/sim/fork.h"
#include "backends/sim/runtime.h"

#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 12
#include <ATen/core/GraphImplInterface.h>
#define ANYACCEL_SIM_TORCH_GRAPHS
#endif

namespace anyaccel::backends::sim {

namespace {

/// The captures in progress, and the number of graphs that use each pool.
struct Shared {
  HeldAtFork mutex{ForkOrder::outer};
  std::set<const void*> captures;
  std::map<std::pair<Device*, PoolId>, int> pool_users;
  PoolId last_pool = 0;
};

Shared& shared() {
  static auto* instance = new Shared;
  return *instance;
}

class ReplayTask final : public Task {
 public:
  ReplayTask(std::shared_ptr<GraphWork> work, SimStream& stream)
      : Task("graph.replay"), work_(std::move(work)), stream_(stream) {
    for (auto& random : work_->random) {
      const std::lock_guard lock(random.generator.mutex());
      starts_.push_back(random.generator.get<SimGenerator>()->advance(random.count));
    }
  }
  void run(bool /*again*/) override {
    for (std::size_t i = 0; i < starts_.size(); ++i) *work_->random[i].start = starts_[i];
    for (const auto& task : work_->tasks) execute_task(stream_, *task, /*again=*/true);
  }

 private:
  std::shared_ptr<GraphWork> work_;
  SimStream& stream_;
  std::vector<ReplayRandom> starts_;
};

}  // namespace

GraphWork::~GraphWork() {
  if (auto* watching = observer()) watching->on_graph_end(this);
}

Capture::Capture(SimStream& origin, PoolId pool) : pool_(pool), streams_{&origin} {
  {
    const std::lock_guard lock(shared().mutex);
    shared().captures.insert(this);
  }
  origin.set_capture(this);
}

Capture::~Capture() { end(); }

void Capture::add(std::unique_ptr<Task> task) {
  const std::lock_guard lock(mutex_);
  work_->tasks.push_back(std::move(task));
}

RandomDraw Capture::draw(const at::Generator& generator) {
  const std::lock_guard lock(mutex_);
  auto& all = work_->random;
  auto found = std::find_if(all.begin(), all.end(),
                            [&](const auto& each) { return each.generator == generator; });
  if (found == all.end()) {
    all.push_back({.generator = generator, .start = std::make_shared<ReplayRandom>()});
    found = all.end() - 1;
  }
  return {.seed = 0, .offset = ++found->count, .replay = found->start};
}

void Capture::join(SimStream& stream) {
  const std::lock_guard lock(mutex_);
  if (stream.capture() == this) return;
  TORCH_CHECK(stream.capture() == nullptr, "[sim] two captures cannot wait for each other");
  stream.set_capture(this);
  streams_.push_back(&stream);
}

std::shared_ptr<GraphWork> Capture::end() {
  const std::lock_guard lock(mutex_);
  {
    const std::lock_guard all(shared().mutex);
    shared().captures.erase(this);
  }
  for (auto* stream : streams_)
    if (stream->capture() == this) stream->set_capture(nullptr);
  return std::exchange(work_, std::make_shared<GraphWork>());
}

void join_capture(SimStream& stream, const void* capture) {
  {
    const std::lock_guard lock(shared().mutex);
    TORCH_CHECK(shared().captures.count(capture) != 0,
                "[sim] the event was recorded in a capture that has ended; an event recorded in a "
                "capture cannot be used outside it");
  }
  if (stream.capture() != capture) static_cast<Capture*>(const_cast<void*>(capture))->join(stream);
}

SimGraph::~SimGraph() { reset(); }

void SimGraph::capture_begin(std::pair<std::uint64_t, std::uint64_t> pool) {
  TORCH_CHECK(capture_ == nullptr, "[sim] the graph is already capturing");
  auto& stream = current_stream(current_device());
  TORCH_CHECK(stream.capture() == nullptr, "[sim] another graph is already capturing this stream");
  reset();
  device_ = &stream.device();
  {
    const std::lock_guard lock(shared().mutex);
    pool_ = pool.second != 0 ? pool.second : pool.first != 0 ? pool.first : ++shared().last_pool;
    ++shared().pool_users[{device_, pool_}];
  }
  capture_ = std::make_unique<Capture>(stream, pool_);
}

void SimGraph::capture_end() {
  TORCH_CHECK(capture_ != nullptr, "[sim] the graph is not capturing");
  TORCH_CHECK(current_stream(capture_->origin().device().index).capture() == capture_.get(),
              "[sim] a capture must end on the stream on which it began");
  work_ = capture_->end();
  capture_.reset();
}

void SimGraph::replay() {
  TORCH_CHECK(work_ != nullptr, "[sim] there is no captured work to replay");
  auto& stream = current_stream(device_->index);
  TORCH_CHECK(stream.capture() == nullptr,
              "[sim] a graph cannot be replayed while another one is capturing the stream");
  launch(stream, std::make_unique<ReplayTask>(work_, stream),
         {.op = "graph.replay", .graph = work_.get(), .replay = true});
}

void SimGraph::reset() noexcept {
  capture_.reset();
  if (work_ != nullptr && device_ != nullptr) {
    // A queued replay keeps the graph's work alive, but the memory that the replay writes must not
    // be reused before the replay has finished.
    for (const auto& stream : device_->streams)
      if (stream->capture() == nullptr) stream->wait(stream->last());
  }
  work_.reset();
  if (device_ == nullptr) return;
  bool last = false;
  {
    const std::lock_guard lock(shared().mutex);
    const auto users = shared().pool_users.find({device_, pool_});
    last = users != shared().pool_users.end() && --users->second == 0;
    if (last) shared().pool_users.erase(users);
  }
  if (last) device_->memory->release_pool(pool_);
  device_ = nullptr;
}

#ifdef ANYACCEL_SIM_TORCH_GRAPHS

namespace {

class TorchGraph final : public at::GraphImplInterface {
 public:
  void capture_begin(c10::MempoolId_t pool, at::GraphCaptureMode /*mode*/) override {
    graph_.capture_begin(pool);
  }
  void capture_end() override { graph_.capture_end(); }
  void instantiate() override {}
  void replay() override { graph_.replay(); }
  void reset() override { graph_.reset(); }
  c10::MempoolId_t pool() const override { return graph_.pool(); }
  void enable_debug_mode() override {}
  void debug_dump(const std::string& /*path*/) override {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "[sim] graphs do not support debug dumps");
  }

 private:
  SimGraph graph_;
};

}  // namespace

void register_graphs() {
  at::GraphImplRegistry()->Register(
      c10::DeviceTypeName(runtime().type, /*lower_case=*/false),
      [](const at::GraphImplArgs&) { return std::make_unique<TorchGraph>(); });
}

#else
void register_graphs() {}
#endif

}  // namespace anyaccel::backends::sim
