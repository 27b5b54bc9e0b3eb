#include "conformance/mutant_comm.h"

#include <algorithm>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "anyaccel/accelerator.h"
#include "anyaccel/comm.h"

namespace anyaccel::test {

namespace {

using Tensors = std::vector<at::Tensor>;
using Lists = std::vector<Tensors>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

/// Work that is already complete.
class Done final : public c10d::Work {
 public:
  bool isCompleted() override { return true; }
  bool wait(std::chrono::milliseconds) override { return true; }
};

class MutantComm final : public c10d::Backend {
 public:
  MutantComm(c10::intrusive_ptr<c10d::Backend> inner, std::string defect)
      : Backend(inner->getRank(), inner->getSize()),
        inner_(std::move(inner)),
        defect_(std::move(defect)) {}

  void setTimeout(std::chrono::milliseconds timeout) override { inner_->setTimeout(timeout); }
  const std::string getBackendName() const override { return "mutant"; }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    if (is("collective_does_nothing")) return done();
    if (is("collective_reduces_in_float32") &&
        c10::isIntegralType(tensors[0].scalar_type(), false)) {
      Tensors rounded = {tensors[0].to(c10::kFloat)};
      inner_->allreduce(rounded, options)->wait();
      tensors[0].copy_(rounded[0]);
      return done();
    }
    auto changed = options;
    if (is("collective_always_sums")) changed.reduceOp = c10d::ReduceOp::SUM;
    Tensors part = tensors;
    if (is("collective_stops_halfway"))
      part[0] = tensors[0].narrow(0, 0, (tensors[0].numel() + 1) / 2);
    if (is("collective_ignores_streams")) {
      const auto guard = get_accelerator().stream(get_accelerator().Stream());
      return inner_->allreduce(part, changed);
    }
    if (!is("collective_fails_silently")) return inner_->allreduce(part, changed);
    try {
      inner_->allreduce(part, changed)->wait();
    } catch (const std::exception&) {  // the defect: the error is ignored
    }
    return done();
  }
  WorkPtr allgather(Lists& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override {
    if (is("gather_swaps_ranks"))
      for (auto& list : outputs) std::reverse(list.begin(), list.end());
    return inner_->allgather(outputs, inputs, options);
  }
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    auto changed = options;
    if (is("broadcast_from_rank_0")) changed.rootRank = 0;
    return inner_->broadcast(tensors, changed);
  }
  WorkPtr reduce_scatter(Tensors& outputs, Lists& inputs,
                         const c10d::ReduceScatterOptions& options) override {
    auto changed = inputs;
    if (is("scatter_gives_part_0"))
      for (auto& list : changed) std::fill(list.begin(), list.end(), list.front());
    return inner_->reduce_scatter(outputs, changed, options);
  }
  WorkPtr send(Tensors& tensors, int rank, int tag) override {
    return half_of(tensors, [&](Tensors& part) { return inner_->send(part, rank, tag); });
  }
  WorkPtr recv(Tensors& tensors, int rank, int tag) override {
    return half_of(tensors, [&](Tensors& part) { return inner_->recv(part, rank, tag); });
  }
  WorkPtr barrier(const c10d::BarrierOptions& options) override {
    return is("barrier_is_open") ? done() : inner_->barrier(options);
  }

 private:
  bool is(const char* defect) const { return defect_ == defect; }
  static WorkPtr done() { return c10::make_intrusive<Done>(); }
  WorkPtr half_of(Tensors& tensors, const std::function<WorkPtr(Tensors&)>& body) {
    Tensors part = tensors;
    if (is("message_loses_its_end")) part[0] = tensors[0].narrow(0, 0, tensors[0].numel() / 2);
    return body(part);
  }

  c10::intrusive_ptr<c10d::Backend> inner_;
  std::string defect_;
};

}  // namespace

std::string register_mutant_comm(const std::string& defect) {
  const bool ours = std::any_of(std::begin(kCommDefects), std::end(kCommDefects),
                                [&](const char* known) { return defect == known; });
  if (!ours) return "";
  comm::register_backend("mutant_comm", [defect](const c10::intrusive_ptr<c10d::Store>& store,
                                                 const comm::GroupOptions& options) {
    return c10::make_intrusive<MutantComm>(comm::make_staged_backend(store, options), defect);
  });
  return "mutant_comm";
}

}  // namespace anyaccel::test
