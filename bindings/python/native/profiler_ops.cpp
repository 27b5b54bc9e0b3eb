#ifndef NDEBUG
#define NDEBUG  // as in profiler_observer.cpp
#endif

#include "profiler_ops.h"

#include <charconv>

#include "profiler.h"

namespace anyaccel::python::profiler {

namespace {

/// Ops per event, so that a truncated file loses few of them.
constexpr std::size_t kRowsPerEvent = 256;

void append(std::string& text, std::int64_t number) {
  char digits[24];
  text.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

bool has_sizes(const at::Tensor& tensor) {
  return tensor.defined() && !tensor.is_nested() &&
         !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

void append_shape(std::string& text, const at::Tensor& tensor) {
  text += '[';
  if (has_sizes(tensor))
    for (const auto size : tensor.sizes()) {
      if (text.back() != '[') text += ',';
      append(text, size);
    }
  text += ']';
}

void append_shape(std::string& text, const c10::IValue& input) {
  if (input.isTensor()) {
    append_shape(text, input.toTensor());
  } else if (input.isTensorList()) {
    text += '[';
    for (const c10::IValue& tensor : input.toListRef()) {
      if (text.back() != '[') text += ',';
      append_shape(text, tensor.toTensor());
    }
    text += ']';
  } else {
    text += "[]";
  }
}

std::string_view type_name(const c10::IValue& input) {
  if (input.isTensor()) {
    const auto& tensor = input.toTensor();
    return has_sizes(tensor) ? std::string_view(tensor.dtype().name()) : "";
  }
  if (input.isTensorList()) return "TensorList";
  if (input.isScalar()) return "Scalar";
  if (input.isIntList() || input.isDoubleList() || input.isBoolList()) return "ScalarList";
  return "";
}

}  // namespace

void describe_op(const at::RecordFunction& op, std::string& text) {
  text += "[\"";
  text += json_text(op.name());
  text += "\",[";
  const auto inputs = op.inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (i > 0) text += ',';
    append_shape(text, inputs[i]);
  }
  text += "],[";
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    text += i > 0 ? ",\"" : "\"";
    text += type_name(inputs[i]);
    text += '"';
  }
  text += "],";
  append(text, static_cast<std::int64_t>(op.forwardThreadId()));
  text += ']';
}

OpRecord& OpLog::add(const std::string& description, std::int64_t sequence) {
  auto kind = kinds_.find(description);
  if (kind == kinds_.end()) {
    kind = kinds_.emplace(description, static_cast<std::uint32_t>(descriptions_.size())).first;
    descriptions_.push_back(&kind->first);
  }
  if (size_ == chunks_.size() * kChunk) chunks_.push_back(std::make_unique<OpRecord[]>(kChunk));
  auto& record = chunks_.back()[size_++ % kChunk];
  record.sequence = sequence;
  record.kind = kind->second;
  return record;
}

void OpLog::clear() {
  retired_ = std::move(chunks_);
  chunks_.clear();
  size_ = 0;
  descriptions_.clear();
  kinds_.clear();
}

void OpLog::write(int thread, std::uint64_t logical, std::int64_t base,
                  const std::function<std::int64_t(Ticks)>& clock, std::string& text) const {
  std::size_t described = 0;
  auto before = base;
  for (std::size_t at = 0; at < size_;) {
    std::string rows;
    std::size_t known = described;
    for (std::size_t row = 0; row < kRowsPerEvent && at < size_; ++at) {
      const auto& record = chunks_[at / kChunk][at % kChunk];
      known = std::max(known, static_cast<std::size_t>(record.kind) + 1);
      const auto end = record.end.load(std::memory_order_relaxed);
      if (end == 0) continue;
      const auto begin = clock(record.begin);
      if (row++ > 0) rows += ',';
      append(rows, record.kind);
      rows += ',';
      append(rows, begin - before);
      rows += ',';
      append(rows, clock(end) - begin);
      rows += ',';
      append(rows, record.sequence);
      before = begin;
    }
    text += R"({"ph":"ops","tid":)";
    append(text, thread);
    text += R"(,"logical":)";
    append(text, static_cast<std::int64_t>(logical));
    text += R"(,"kinds":[)";
    for (; described < known; ++described) {
      if (text.back() != '[') text += ',';
      text += *descriptions_[described];
    }
    text += R"(],"rows":[)" + rows + "]},\n";
  }
}

std::string memory_event(int thread, const std::vector<MemoryRecord>& records, std::int64_t base,
                         const std::function<std::int64_t(Ticks)>& clock) {
  std::string text = R"({"ph":"memory","tid":)" + std::to_string(thread) + R"(,"rows":[)";
  auto before = base;
  for (const auto& record : records) {
    const auto time = clock(record.time);
    for (const std::int64_t number :
         {time - before, reinterpret_cast<std::int64_t>(record.address), record.bytes,
          static_cast<std::int64_t>(record.allocated), static_cast<std::int64_t>(record.reserved),
          static_cast<std::int64_t>(record.device.type()),
          static_cast<std::int64_t>(record.device.index())}) {
      append(text, number);
      text += ',';
    }
    before = time;
  }
  text.back() = ']';
  return text + '}';
}

std::string json_text(std::string_view text) {
  std::string result;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      result += '\\';
      result += letter;
    } else if (byte < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", byte);
      result += escaped;
    } else {
      result += letter;
    }
  }
  return result;
}

}  // namespace anyaccel::python::profiler
