#include <ATen/core/class_type.h>
#include <ATen/core/function.h>
#include <ATen/core/stack.h>
#include <torch/custom_class_detail.h>

#include <utility>

#include "anyaccel/accelerator.h"
#include "anyaccel/ops/async_io.h"

namespace anyaccel::ops {

namespace {

template <class... Arguments>
c10::IValue call(const c10::IValue& object, const char* method, Arguments&&... arguments) {
  torch::jit::Stack stack;
  stack.reserve(sizeof...(arguments) + 1);
  stack.push_back(object);
  (stack.emplace_back(std::forward<Arguments>(arguments)), ...);
  object.toObjectRef().type()->getMethod(method).run(stack);
  return std::move(stack.back());
}

c10::IValue transfer(const c10::IValue& object, const at::Tensor& buffer,
                     const std::string& filename, bool write, bool validate, bool async,
                     std::int64_t offset) {
  return call(object, "transfer", buffer, filename, write, validate, async, offset);
}

}  // namespace

void AsyncIORequest::wait() { call(object_, "wait"); }
bool AsyncIORequest::done() const { return call(object_, "done").toBool(); }
void AsyncIORequest::cancel() { call(object_, "cancel"); }

AsyncIOHandle::AsyncIOHandle(std::int64_t block_size, std::int64_t queue_depth, bool single_submit,
                             bool overlap_events, std::int64_t intra_op_parallelism) {
  static const auto type = [] {
    get_accelerator().create_op_builder("AsyncIOBuilder")->load();
    return torch::getCustomClass("__torch__.torch.classes.anyaccel.AsyncIOHandle");
  }();
  object_ = c10::ivalue::Object::create(c10::StrongTypePtr({}, type), 1);
  call(object_, "__init__", block_size, queue_depth, single_submit, overlap_events,
       intra_op_parallelism);
}

std::int64_t AsyncIOHandle::get_block_size() const { return call(object_, "block_size").toInt(); }
std::int64_t AsyncIOHandle::get_queue_depth() const { return call(object_, "queue_depth").toInt(); }
bool AsyncIOHandle::get_single_submit() const { return call(object_, "single_submit").toBool(); }
bool AsyncIOHandle::get_overlap_events() const { return call(object_, "overlap_events").toBool(); }
std::int64_t AsyncIOHandle::get_intra_op_parallelism() const {
  return call(object_, "intra_op_parallelism").toInt();
}
std::int64_t AsyncIOHandle::get_alignment() const { return call(object_, "alignment").toInt(); }
std::string AsyncIOHandle::get_queue() const { return call(object_, "queue").toStringRef(); }
std::string AsyncIOHandle::get_queue_reason() const {
  return call(object_, "queue_reason").toStringRef();
}

int AsyncIOHandle::read(const at::Tensor& buffer, const std::string& filename, bool validate,
                        std::int64_t file_offset) {
  transfer(object_, buffer, filename, false, validate, false, file_offset);
  return 0;
}

int AsyncIOHandle::write(const at::Tensor& buffer, const std::string& filename, bool validate,
                         std::int64_t file_offset) {
  transfer(object_, buffer, filename, true, validate, false, file_offset);
  return 0;
}

std::int64_t AsyncIOHandle::pread(const at::Tensor& buffer, const std::string& filename,
                                  bool validate, bool async, std::int64_t file_offset) {
  return transfer(object_, buffer, filename, false, validate, async, file_offset).toInt();
}

std::int64_t AsyncIOHandle::pwrite(const at::Tensor& buffer, const std::string& filename,
                                   bool validate, bool async, std::int64_t file_offset) {
  return transfer(object_, buffer, filename, true, validate, async, file_offset).toInt();
}

std::int64_t AsyncIOHandle::sync_pread(const at::Tensor& buffer, const std::string& filename,
                                       std::int64_t file_offset) {
  return pread(buffer, filename, false, false, file_offset);
}

std::int64_t AsyncIOHandle::sync_pwrite(const at::Tensor& buffer, const std::string& filename,
                                        std::int64_t file_offset) {
  return pwrite(buffer, filename, false, false, file_offset);
}

std::int64_t AsyncIOHandle::async_pread(const at::Tensor& buffer, const std::string& filename,
                                        std::int64_t file_offset) {
  return pread(buffer, filename, false, true, file_offset);
}

std::int64_t AsyncIOHandle::async_pwrite(const at::Tensor& buffer, const std::string& filename,
                                         std::int64_t file_offset) {
  return pwrite(buffer, filename, false, true, file_offset);
}

std::int64_t AsyncIOHandle::async_pwrite(const at::Tensor& buffer, int fd,
                                         std::int64_t file_offset) {
  return call(object_, "write_descriptor", buffer, static_cast<std::int64_t>(fd), file_offset)
      .toInt();
}

std::int64_t AsyncIOHandle::wait() { return call(object_, "wait").toInt(); }
void AsyncIOHandle::cancel() { call(object_, "cancel"); }
void AsyncIOHandle::close() { call(object_, "close"); }

AsyncIORequest AsyncIOHandle::start_read(const at::Tensor& buffer, const std::string& filename,
                                         std::int64_t file_offset) {
  return AsyncIORequest(call(object_, "start", buffer, filename, false, file_offset));
}

AsyncIORequest AsyncIOHandle::start_write(const at::Tensor& buffer, const std::string& filename,
                                          std::int64_t file_offset) {
  return AsyncIORequest(call(object_, "start", buffer, filename, true, file_offset));
}

at::Tensor AsyncIOHandle::new_cpu_locked_tensor(std::int64_t elements, const at::Tensor& example) {
  return pins_.new_cpu_locked_tensor(elements, example);
}

bool AsyncIOHandle::free_cpu_locked_tensor(const at::Tensor& locked) {
  return pins_.free_cpu_locked_tensor(locked);
}

bool AsyncIOHandle::is_pinned(const at::Tensor& buffer) const { return pins_.is_pinned(buffer); }

}  // namespace anyaccel::ops
