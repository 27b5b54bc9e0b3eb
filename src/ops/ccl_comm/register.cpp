// Collectives of oneCCL on host tensors: communicators by name, torch's operators over them.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <oneapi/ccl.hpp>

#include "anyaccel/error.h"

namespace anyaccel::ops::ccl_comm {

namespace {

using at::Tensor;
using Address = ::ccl::kvs::address_type;

struct Comm {
  int rank;
  int size;
  ::ccl::shared_ptr_class<::ccl::kvs> kvs;  // the communicator uses it
  std::unique_ptr<::ccl::communicator> ccl;
  std::mutex mutex;
};

struct State {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Comm>> comms;
  std::map<std::string, ::ccl::shared_ptr_class<::ccl::kvs>> offered;  // by address: this process's own
};

State& state() {
  static auto* instance = new State;  // never destroyed: oneCCL's own threads end with the process
  return *instance;
}

/// Without a launcher of MPI's, oneCCL is told to need none; what the user has set stands.
void start() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (std::getenv("PMI_RANK") == nullptr && std::getenv("PMIX_RANK") == nullptr) {
      ::setenv("CCL_ATL_TRANSPORT", "ofi", 0);
      ::setenv("CCL_PROCESS_LAUNCHER", "none", 0);
      ::setenv("FI_PROVIDER", "tcp", 0);
      if (const char* root = std::getenv("CCL_ROOT"))
        ::setenv("FI_PROVIDER_PATH", (std::string(root) + "/lib").c_str(), 0);
    }
    ::ccl::init();
  });
}

/// oneCCL's errors become ours.
template <typename Call>
auto calling(const char* where, const Call& call) {
  try {
    return call();
  } catch (const ::ccl::exception& error) {
    throw Error(ErrorCode::unavailable, where, {.what = "oneCCL failed", .got = error.what()});
  }
}

Tensor offer() {
  return calling("ccl_comm_address", [] {
    start();
    auto kvs = ::ccl::create_main_kvs();
    const auto address = kvs->get_address();
    auto tensor = at::empty({static_cast<std::int64_t>(address.size())}, at::kByte);
    std::memcpy(tensor.mutable_data_ptr(), address.data(), address.size());
    auto& all = state();
    const std::lock_guard lock(all.mutex);
    all.offered[std::string(address.begin(), address.end())] = kvs;
    return tensor;
  });
}

std::int64_t address_bytes() { return static_cast<std::int64_t>(Address().size()); }

void init(const std::string& name, std::int64_t size, std::int64_t rank, const Tensor& address) {
  Address bytes;
  if (address.scalar_type() != at::kByte || address.numel() != address_bytes() || !address.is_contiguous() ||
      size < 1 || rank < 0 || rank >= size)
    throw Error(ErrorCode::invalid_argument, "ccl_comm_init",
                {.what = "a group needs a rank below its size and an address of ccl_comm_address()",
                 .got = "rank " + std::to_string(rank) + " of " + std::to_string(size) + ", " +
                        std::to_string(address.numel()) + " elements"});
  std::memcpy(bytes.data(), address.const_data_ptr(), bytes.size());
  auto comm = std::make_shared<Comm>();
  comm->rank = static_cast<int>(rank);
  comm->size = static_cast<int>(size);
  auto& all = state();
  {
    const std::lock_guard lock(all.mutex);
    if (all.comms.contains(name)) return;  // as DeepSpeed's: the second call does nothing
    if (const auto mine = all.offered.find(std::string(bytes.begin(), bytes.end())); mine != all.offered.end())
      comm->kvs = mine->second;
  }
  calling("ccl_comm_init", [&] {
    start();
    if (!comm->kvs) comm->kvs = ::ccl::create_kvs(bytes);
    comm->ccl = std::make_unique<::ccl::communicator>(::ccl::create_communicator(comm->size, comm->rank, comm->kvs));
  });
  const std::lock_guard lock(all.mutex);
  all.comms[name] = comm;
}

std::shared_ptr<Comm> find(const std::string& name) {
  auto& all = state();
  const std::lock_guard lock(all.mutex);
  const auto found = all.comms.find(name);
  if (found == all.comms.end())
    throw Error(
        ErrorCode::invalid_state, "ccl_comm",
        {.what = "this group was not initialized", .got = "'" + name + "'", .hint = "call ccl_comm_init first"});
  return found->second;
}

::ccl::datatype datatype(const char* where, c10::ScalarType type) {
  switch (type) {
    case at::kFloat: return ::ccl::datatype::float32;
    case at::kDouble: return ::ccl::datatype::float64;
    case at::kHalf: return ::ccl::datatype::float16;
    case at::kBFloat16: return ::ccl::datatype::bfloat16;
    case at::kChar: return ::ccl::datatype::int8;
    case at::kByte:
    case at::kBool: return ::ccl::datatype::uint8;
    case at::kShort: return ::ccl::datatype::int16;
    case at::kInt: return ::ccl::datatype::int32;
    case at::kLong: return ::ccl::datatype::int64;
    default:
      throw Error(ErrorCode::unsupported, where,
                  {.what = "oneCCL cannot reduce this dtype", .got = c10::toString(type)});
  }
}

struct Reduction {
  ::ccl::reduction ccl;
  bool average;
};

Reduction reduction(const char* where, const std::string& name, c10::ScalarType type) {
  const bool truth = type == at::kBool;
  if (name == "avg" && c10::isFloatingType(type)) return {::ccl::reduction::sum, true};
  // As NCCL: the sum of truths is truth when one is.
  if (name == "sum") return {truth ? ::ccl::reduction::max : ::ccl::reduction::sum, false};
  if (name == "product") return {truth ? ::ccl::reduction::min : ::ccl::reduction::prod, false};
  if (name == "min") return {::ccl::reduction::min, false};
  if (name == "max") return {::ccl::reduction::max, false};
  throw Error(ErrorCode::unsupported, where,
              {.what = "this reduction does not exist here",
               .got = "'" + name + "' of " + c10::toString(type),
               .want = "sum, product, min or max, or avg of floats"});
}

/// Contiguous host memory for a tensor.
Tensor host(const Tensor& from) {
  if (from.is_cpu() && from.is_contiguous() && !from.is_conj() && !from.is_neg()) return from;
  auto copy = at::empty(from.sizes(), from.options().device(at::kCPU));
  return copy.copy_(from);
}
void write_back(const Tensor& from, const Tensor& to) {
  if (!from.is_same(to))
    to.copy_(from);
  else if (!to.is_inference())
    to.unsafeGetTensorImpl()->bump_version();
}

void all_reduce_(const Tensor& self, const std::string& op, const std::string& name, const std::string& match_id) {
  const auto type = datatype("ccl_all_reduce_", self.scalar_type());
  const auto reduce = reduction("ccl_all_reduce_", op, self.scalar_type());
  const auto comm = find(name);
  const auto plain = host(self);
  if (plain.numel() == 0) return;
  calling("ccl_all_reduce_", [&] {
    const std::lock_guard lock(comm->mutex);
    auto attributes = ::ccl::create_operation_attr<::ccl::allreduce_attr>();
    if (!match_id.empty()) {
      attributes.set<::ccl::operation_attr_id::to_cache>(true);
      attributes.set<::ccl::operation_attr_id::match_id>(::ccl::string_class(match_id.c_str()));
    }
    auto* const data = plain.mutable_data_ptr();
    ::ccl::allreduce(data, data, static_cast<std::size_t>(plain.numel()), type, reduce.ccl, *comm->ccl, attributes)
        .wait();
  });
  if (reduce.average) plain.div_(comm->size);
  write_back(plain, self);
}

void broadcast_(const Tensor& self, std::int64_t source, const std::string& name) {
  const auto comm = find(name);
  if (source < 0 || source >= comm->size)
    throw Error(ErrorCode::invalid_argument, "ccl_broadcast_",
                {.what = "the source is not in the group", .got = "rank " + std::to_string(source)});
  const auto plain = host(self);
  if (plain.numel() == 0) return;
  calling("ccl_broadcast_", [&] {
    const std::lock_guard lock(comm->mutex);
    ::ccl::broadcast(plain.mutable_data_ptr(), plain.nbytes(), ::ccl::datatype::uint8, static_cast<int>(source),
                     *comm->ccl)
        .wait();
  });
  write_back(plain, self);
}

Tensor all_gather(const Tensor& self, const std::string& name) {
  const auto comm = find(name);
  const auto plain = host(self);
  auto sizes = self.sizes().vec();
  if (sizes.empty()) sizes.push_back(1);
  sizes[0] *= comm->size;
  auto result = at::empty(sizes, plain.options());
  if (plain.numel() != 0)
    calling("ccl_all_gather", [&] {
      const std::lock_guard lock(comm->mutex);
      const ::ccl::vector_class<std::size_t> counts(static_cast<std::size_t>(comm->size), plain.nbytes());
      ::ccl::allgatherv(plain.const_data_ptr(), plain.nbytes(), result.mutable_data_ptr(), counts,
                        ::ccl::datatype::uint8, *comm->ccl)
          .wait();
    });
  return result.to(self.device());
}

Tensor reduce_scatter(const Tensor& self, const std::string& op, const std::string& name) {
  const auto type = datatype("ccl_reduce_scatter", self.scalar_type());
  const auto reduce = reduction("ccl_reduce_scatter", op, self.scalar_type());
  const auto comm = find(name);
  const auto plain = host(self);
  auto sizes = self.sizes().vec();
  if (sizes.empty() || sizes[0] % comm->size != 0)
    throw Error(ErrorCode::invalid_argument, "ccl_reduce_scatter",
                {.what = "the first dimension must be a multiple of the number of ranks"});
  sizes[0] /= comm->size;
  auto result = at::empty(sizes, plain.options());
  if (result.numel() != 0)
    calling("ccl_reduce_scatter", [&] {
      const std::lock_guard lock(comm->mutex);
      ::ccl::reduce_scatter(plain.const_data_ptr(), result.mutable_data_ptr(), static_cast<std::size_t>(result.numel()),
                            type, reduce.ccl, *comm->ccl)
          .wait();
    });
  if (reduce.average) result.div_(comm->size);
  return result.to(self.device());
}

void barrier(const std::string& name) {
  const auto comm = find(name);
  calling("ccl_barrier", [&] {
    const std::lock_guard lock(comm->mutex);
    ::ccl::barrier(*comm->ccl).wait();
  });
}

TORCH_LIBRARY_FRAGMENT(anyaccel, m) {
  m.def("ccl_comm_address() -> Tensor", offer);
  m.def("ccl_comm_address_bytes() -> int", address_bytes);
  m.def("ccl_comm_init(str group, int size, int rank, Tensor address) -> ()", init);
  m.def("ccl_comm_rank(str group) -> int", [](const std::string& name) { return std::int64_t{find(name)->rank}; });
  m.def("ccl_comm_size(str group) -> int", [](const std::string& name) { return std::int64_t{find(name)->size}; });
  m.def("ccl_all_reduce_(Tensor(a!) self, str op, str group, str match_id) -> ()");
  m.def("ccl_broadcast_(Tensor(a!) self, int source, str group) -> ()");
  m.def("ccl_all_gather(Tensor self, str group) -> Tensor");
  m.def("ccl_reduce_scatter(Tensor self, str op, str group) -> Tensor");
  m.def("ccl_barrier(str group) -> ()", barrier);
}

TORCH_LIBRARY_IMPL(anyaccel, CompositeExplicitAutograd, m) {
  m.impl("ccl_all_reduce_", all_reduce_);
  m.impl("ccl_broadcast_", broadcast_);
  m.impl("ccl_all_gather", all_gather);
  m.impl("ccl_reduce_scatter", reduce_scatter);
}

TORCH_LIBRARY_IMPL(anyaccel, Meta, m) {
  m.impl("ccl_all_reduce_", [](const Tensor&, const std::string&, const std::string&, const std::string&) {});
  m.impl("ccl_broadcast_", [](const Tensor&, std::int64_t, const std::string&) {});
  m.impl("ccl_all_gather", [](const Tensor& self, const std::string& name) {
    auto sizes = self.sizes().vec();
    if (sizes.empty()) sizes.push_back(1);
    sizes[0] *= find(name)->size;
    return at::empty(sizes, self.options());
  });
  m.impl("ccl_reduce_scatter", [](const Tensor& self, const std::string&, const std::string& name) {
    auto sizes = self.sizes().vec();
    sizes.at(0) /= find(name)->size;
    return at::empty(sizes, self.options());
  });
}

}  // namespace
}  // namespace anyaccel::ops::ccl_comm
