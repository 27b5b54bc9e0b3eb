// Registers oneCCL collectives for host tensors as torch operators.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <algorithm>
#include <numeric>

#include "comm/ccl/communicator.h"
#include "ops/shared/boxed.h"
#include "ops/shared/error.h"

namespace anyaccel::ops::ccl_comm {

namespace {

using at::Tensor;

void check_rank(const char* where, const Comm& comm, std::int64_t rank) {
  if (rank < 0 || rank >= comm.size)
    throw Error(ErrorCode::invalid_argument, where,
                {.what = "the rank is out of range",
                 .got = std::to_string(rank),
                 .want = "0 to " + std::to_string(comm.size - 1)});
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
                  {.what = "oneCCL does not support this dtype", .got = c10::toString(type)});
  }
}

struct Reduction {
  ::ccl::reduction ccl;
  bool average;
};

Reduction reduction(const char* where, const std::string& name, c10::ScalarType type) {
  const bool truth = type == at::kBool;
  if (name == "avg" && c10::isFloatingType(type)) return {::ccl::reduction::sum, true};
  // As in NCCL, the sum of booleans is a logical OR.
  if (name == "sum") return {truth ? ::ccl::reduction::max : ::ccl::reduction::sum, false};
  if (name == "product") return {truth ? ::ccl::reduction::min : ::ccl::reduction::prod, false};
  if (name == "min") return {::ccl::reduction::min, false};
  if (name == "max") return {::ccl::reduction::max, false};
  throw Error(ErrorCode::unsupported, where,
              {.what = "unsupported reduction",
               .got = "'" + name + "' of " + c10::toString(type),
               .want = "sum, product, min, max, or avg with a floating-point dtype"});
}

/// Returns the tensor itself if it is contiguous and in host memory, and otherwise a contiguous
/// copy in host memory.
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

void all_reduce_(const Tensor& self, const std::string& op, const std::string& name,
                 const std::string& match_id) {
  constexpr const char* kWhere = "ccl_all_reduce_";
  const auto type = datatype(kWhere, self.scalar_type());
  const auto reduce = reduction(kWhere, op, self.scalar_type());
  const auto comm = find_comm(name);
  const auto plain = host(self);
  if (plain.numel() == 0) return;
  comm->run(kWhere, [=](const ::ccl::communicator& ccl) {
    auto attributes = ::ccl::create_operation_attr<::ccl::allreduce_attr>();
    if (!match_id.empty()) {
      attributes.set<::ccl::operation_attr_id::to_cache>(true);
      attributes.set<::ccl::operation_attr_id::match_id>(::ccl::string_class(match_id.c_str()));
    }
    auto* const data = plain.mutable_data_ptr();
    return ::ccl::allreduce(data, data, static_cast<std::size_t>(plain.numel()), type, reduce.ccl,
                            ccl, attributes);
  });
  if (reduce.average) plain.div_(comm->size);
  write_back(plain, self);
}

void reduce_(const Tensor& self, std::int64_t destination, const std::string& op,
             const std::string& name) {
  constexpr const char* kWhere = "ccl_reduce_";
  const auto type = datatype(kWhere, self.scalar_type());
  const auto reduce = reduction(kWhere, op, self.scalar_type());
  const auto comm = find_comm(name);
  check_rank(kWhere, *comm, destination);
  const auto plain = host(self);
  if (plain.numel() == 0) return;
  // Use a separate result, because partial sums must not be written to the inputs of other ranks.
  const auto result = at::empty_like(plain);
  comm->run(kWhere, [=](const ::ccl::communicator& ccl) {
    return ::ccl::reduce(plain.const_data_ptr(), result.mutable_data_ptr(),
                         static_cast<std::size_t>(plain.numel()), type, reduce.ccl,
                         static_cast<int>(destination), ccl);
  });
  if (comm->rank != destination) return;
  if (reduce.average) result.div_(comm->size);
  self.copy_(result);
}

void broadcast_(const Tensor& self, std::int64_t source, const std::string& name) {
  constexpr const char* kWhere = "ccl_broadcast_";
  const auto comm = find_comm(name);
  check_rank(kWhere, *comm, source);
  const auto plain = host(self);
  if (plain.numel() == 0) return;
  comm->run(kWhere, [=](const ::ccl::communicator& ccl) {
    return ::ccl::broadcast(plain.mutable_data_ptr(), plain.nbytes(), ::ccl::datatype::uint8,
                            static_cast<int>(source), ccl);
  });
  write_back(plain, self);
}

Tensor all_gather(const Tensor& self, const std::string& name) {
  constexpr const char* kWhere = "ccl_all_gather";
  const auto comm = find_comm(name);
  const auto plain = host(self);
  auto sizes = self.sizes().vec();
  if (sizes.empty()) sizes.push_back(1);
  sizes[0] *= comm->size;
  const auto result = at::empty(sizes, plain.options());
  if (plain.numel() != 0)
    comm->run(kWhere, [=](const ::ccl::communicator& ccl) {
      const ::ccl::vector_class<std::size_t> counts(static_cast<std::size_t>(comm->size),
                                                    plain.nbytes());
      return ::ccl::allgatherv(plain.const_data_ptr(), plain.nbytes(), result.mutable_data_ptr(),
                               counts, ::ccl::datatype::uint8, ccl);
    });
  return result.to(self.device());
}

Tensor reduce_scatter(const Tensor& self, const std::string& op, const std::string& name) {
  constexpr const char* kWhere = "ccl_reduce_scatter";
  const auto type = datatype(kWhere, self.scalar_type());
  const auto reduce = reduction(kWhere, op, self.scalar_type());
  const auto comm = find_comm(name);
  const auto plain = host(self);
  auto sizes = self.sizes().vec();
  if (sizes.empty() || sizes[0] % comm->size != 0)
    throw Error(ErrorCode::invalid_argument, kWhere,
                {.what = "the first dimension must be a multiple of the number of ranks",
                 .got = sizes.empty() ? "a scalar" : std::to_string(sizes[0]),
                 .want = "a multiple of " + std::to_string(comm->size)});
  sizes[0] /= comm->size;
  const auto result = at::empty(sizes, plain.options());
  if (result.numel() != 0)
    comm->run(kWhere, [=](const ::ccl::communicator& ccl) {
      return ::ccl::reduce_scatter(plain.const_data_ptr(), result.mutable_data_ptr(),
                                   static_cast<std::size_t>(result.numel()), type, reduce.ccl, ccl);
    });
  if (reduce.average) result.div_(comm->size);
  return result.to(self.device());
}

/// Returns each rank's number of rows. An empty list of splits means an equal split.
std::vector<std::int64_t> rows_of(std::int64_t rows, c10::IntArrayRef splits, std::int64_t size) {
  if (!splits.empty()) return splits.vec();
  return std::vector<std::int64_t>(static_cast<std::size_t>(size), rows / size);
}

Tensor all_to_all(const Tensor& self, c10::IntArrayRef output_splits, c10::IntArrayRef input_splits,
                  const std::string& name) {
  constexpr const char* kWhere = "ccl_all_to_all";
  const auto comm = find_comm(name);
  const auto fail_argument = [&](const std::string& what) {
    throw Error(ErrorCode::invalid_argument, kWhere,
                {.what = what, .want = std::to_string(comm->size) + " splits"});
  };
  if (self.dim() == 0) fail_argument("the tensor is a scalar and has no rows");
  const auto from = rows_of(self.size(0), input_splits, comm->size);
  const auto to = rows_of(self.size(0), output_splits, comm->size);
  for (const auto* splits : {&from, &to})
    if (std::ssize(*splits) != comm->size || *std::min_element(splits->begin(), splits->end()) < 0)
      fail_argument("the splits must list a number of rows for each rank");
  if (std::accumulate(from.begin(), from.end(), std::int64_t{0}) != self.size(0))
    fail_argument("the input splits do not add up to the size of the first dimension");
  const auto plain = host(self);
  auto sizes = self.sizes().vec();
  sizes[0] = std::accumulate(to.begin(), to.end(), std::int64_t{0});
  const auto result = at::empty(sizes, plain.options());
  std::size_t row = plain.element_size();
  for (std::size_t i = 1; i < sizes.size(); ++i) row *= static_cast<std::size_t>(sizes[i]);
  const auto in_bytes = [row](const std::vector<std::int64_t>& rows) {
    ::ccl::vector_class<std::size_t> out;
    for (const auto count : rows) out.push_back(static_cast<std::size_t>(count) * row);
    return out;
  };
  comm->run(kWhere, [=](const ::ccl::communicator& ccl) {
    return ::ccl::alltoallv(plain.const_data_ptr(), in_bytes(from), result.mutable_data_ptr(),
                            in_bytes(to), ::ccl::datatype::uint8, ccl);
  });
  return result.to(self.device());
}

void barrier(const std::string& name) {
  const auto comm = find_comm(name);
  comm->run("ccl_barrier", [](const ::ccl::communicator& ccl) { return ::ccl::barrier(ccl); });
}

std::int64_t error_code(const std::string& message) { return error_code_of(message); }
std::int64_t rank_of(const std::string& name) { return find_comm(name)->rank; }
std::int64_t size_of(const std::string& name) { return find_comm(name)->size; }

TORCH_LIBRARY_FRAGMENT(anyaccel, m) {
  define<&error_code>(m, "ccl_comm_error_code(str message) -> int");
  define<&offer_address>(m, "ccl_comm_address() -> Tensor");
  define<&address_bytes>(m, "ccl_comm_address_bytes() -> int");
  define<&make_comm>(
      m, "ccl_comm_init(str group, int size, int rank, Tensor address, float timeout) -> ()");
  m.def("ccl_comm_watch(str group, int[] ranks, int[] processes) -> ()",
        [](const std::string& name, c10::IntArrayRef ranks, c10::IntArrayRef processes) {
          find_comm(name)->watch(ranks, processes);
        });
  define<&close_comm>(m, "ccl_comm_close(str group) -> ()");
  define<&rank_of>(m, "ccl_comm_rank(str group) -> int");
  define<&size_of>(m, "ccl_comm_size(str group) -> int");
  m.def("ccl_all_reduce_(Tensor(a!) self, str op, str group, str match_id) -> ()");
  m.def("ccl_reduce_(Tensor(a!) self, int destination, str op, str group) -> ()");
  m.def("ccl_broadcast_(Tensor(a!) self, int source, str group) -> ()");
  m.def("ccl_all_gather(Tensor self, str group) -> Tensor");
  m.def("ccl_reduce_scatter(Tensor self, str op, str group) -> Tensor");
  m.def(
      "ccl_all_to_all(Tensor self, int[] output_splits, int[] input_splits, str group) -> Tensor");
  define<&barrier>(m, "ccl_barrier(str group) -> ()");
}

TORCH_LIBRARY_IMPL(anyaccel, CompositeExplicitAutograd, m) {
  m.impl("ccl_all_reduce_", all_reduce_);
  m.impl("ccl_reduce_", reduce_);
  m.impl("ccl_broadcast_", broadcast_);
  m.impl("ccl_all_gather", all_gather);
  m.impl("ccl_reduce_scatter", reduce_scatter);
  m.impl("ccl_all_to_all", all_to_all);
}

TORCH_LIBRARY_IMPL(anyaccel, Meta, m) {
  m.impl("ccl_all_reduce_",
         [](const Tensor&, const std::string&, const std::string&, const std::string&) {});
  m.impl("ccl_reduce_", [](const Tensor&, std::int64_t, const std::string&, const std::string&) {});
  m.impl("ccl_broadcast_", [](const Tensor&, std::int64_t, const std::string&) {});
  m.impl("ccl_all_gather", [](const Tensor& self, const std::string& name) {
    auto sizes = self.sym_sizes().vec();
    if (sizes.empty()) sizes.emplace_back(1);
    sizes[0] = sizes[0] * find_comm(name)->size;
    return at::empty_symint(sizes, self.options());
  });
  m.impl("ccl_reduce_scatter", [](const Tensor& self, const std::string&, const std::string& name) {
    auto sizes = self.sym_sizes().vec();
    sizes.at(0) = sizes.at(0) / find_comm(name)->size;
    return at::empty_symint(sizes, self.options());
  });
  m.impl("ccl_all_to_all", [](const Tensor& self, c10::IntArrayRef output_splits, c10::IntArrayRef,
                              const std::string&) {
    auto sizes = self.sym_sizes().vec();
    if (!output_splits.empty())
      sizes.at(0) = std::accumulate(output_splits.begin(), output_splits.end(), std::int64_t{0});
    return at::empty_symint(sizes, self.options());
  });
}

}  // namespace
}  // namespace anyaccel::ops::ccl_comm
