// Registers torch.classes.anyaccel.AsyncIOHandle and torch.ops.anyaccel.{aio_read, aio_write,
// deepspeed_memcpy}.
#include <torch/library.h>

#include "anyaccel/error.h"
#include "ops/async_io/handle.h"
#include "ops/shared/error.h"

namespace anyaccel::ops::aio {

namespace {

void aio_transfer(const at::Tensor& buffer, const std::string& filename, bool write,
                  std::int64_t block_size, std::int64_t queue_depth, bool single_submit,
                  bool overlap_events, bool validate) {
  AsyncIOHandle(block_size, queue_depth, single_submit, overlap_events, 1)
      .transfer(buffer, filename, write, validate, /*async=*/false, /*offset=*/0);
}

void aio_read(const at::Tensor& buffer, const std::string& filename, std::int64_t block_size,
              std::int64_t queue_depth, bool single_submit, bool overlap_events, bool validate) {
  aio_transfer(buffer, filename, false, block_size, queue_depth, single_submit, overlap_events,
               validate);
}

void aio_write(const at::Tensor& buffer, const std::string& filename, std::int64_t block_size,
               std::int64_t queue_depth, bool single_submit, bool overlap_events, bool validate) {
  aio_transfer(buffer, filename, true, block_size, queue_depth, single_submit, overlap_events,
               validate);
}

void nothing(const at::Tensor&, const std::string&, std::int64_t, std::int64_t, bool, bool, bool) {}

void check_copy(const at::Tensor& dest, const at::Tensor& src) {
  if (dest.sym_numel() != src.sym_numel() || dest.scalar_type() != src.scalar_type())
    throw Error(ErrorCode::invalid_argument, "deepspeed_memcpy",
                {.what = "the tensors differ in size or dtype",
                 .got = c10::str(src.sym_numel(), " elements of ", src.scalar_type()),
                 .want = c10::str(dest.sym_numel(), " elements of ", dest.scalar_type())});
}

void deepspeed_memcpy(const at::Tensor& dest, const at::Tensor& src) {
  check_copy(dest, src);
  dest.copy_(src.reshape(dest.sizes()));
}

std::int64_t aio_error_code(const std::string& message) { return error_code_of(message); }

}  // namespace

}  // namespace anyaccel::ops::aio

TORCH_LIBRARY_FRAGMENT(anyaccel, library) {
  using namespace anyaccel::ops::aio;
  library.class_<AsyncIORequest>("AsyncIORequest")
      .def("wait", &AsyncIORequest::wait)
      .def("done", &AsyncIORequest::done)
      .def("cancel", &AsyncIORequest::cancel)
      .def("release", &AsyncIORequest::release);
  library.class_<AsyncIOHandle>("AsyncIOHandle")
      .def(torch::init<std::int64_t, std::int64_t, bool, bool, std::int64_t>())
      .def("block_size", &AsyncIOHandle::block_size)
      .def("queue_depth", &AsyncIOHandle::queue_depth)
      .def("single_submit", &AsyncIOHandle::single_submit)
      .def("overlap_events", &AsyncIOHandle::overlap_events)
      .def("intra_op_parallelism", &AsyncIOHandle::intra_op_parallelism)
      .def("alignment", &AsyncIOHandle::alignment)
      .def("queue", &AsyncIOHandle::queue)
      .def("queue_reason", &AsyncIOHandle::queue_reason)
      .def("transfer", &AsyncIOHandle::transfer)
      .def("write_descriptor", &AsyncIOHandle::write_descriptor)
      .def("start", &AsyncIOHandle::start)
      .def("wait", &AsyncIOHandle::wait)
      .def("cancel", &AsyncIOHandle::cancel)
      .def("close", &AsyncIOHandle::close);
  // Use one kernel for all devices, so that torch does not copy device tensors to the host first.
  const auto key = c10::DispatchKey::CompositeExplicitAutograd;
  const std::string how =
      "str filename, int block_size, int queue_depth, bool single_submit, bool overlap_events, "
      "bool validate) -> ()";
  library.def(("aio_read(Tensor(a!) buffer, " + how).c_str());
  library.impl("aio_read", torch::dispatch(key, &aio_read));
  library.impl("aio_read", torch::dispatch(c10::DispatchKey::Meta, &nothing));
  library.def(("aio_write(Tensor buffer, " + how).c_str());
  library.impl("aio_write", torch::dispatch(key, &aio_write));
  library.impl("aio_write", torch::dispatch(c10::DispatchKey::Meta, &nothing));
  library.def("aio_error_code(str message) -> int", torch::dispatch(key, &aio_error_code));
  library.def("deepspeed_memcpy(Tensor(a!) dest, Tensor src) -> ()");
  library.impl("deepspeed_memcpy", torch::dispatch(key, &deepspeed_memcpy));
  library.impl("deepspeed_memcpy", torch::dispatch(c10::DispatchKey::Meta, &check_copy));
}
