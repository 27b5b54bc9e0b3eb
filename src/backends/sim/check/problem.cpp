#include "backends/sim/check/problem.h"

#include <array>
#include <cstdio>

namespace anyaccel::backends::sim::checking {

namespace {

struct Words {
  const char* name;
  const char* title;
  const char* remedy;
};

// In the order of the enumerators of Kind.
constexpr std::array<Words, 13> kWords{{
    {"host_access", "host access to device memory",
     "copy the tensor to the host first (tensor.cpu(), item()), or run the code as an op on the "
     "device"},
    {"wrong_device", "tensor on the wrong device",
     "move the tensors to one device first (tensor.to(device))"},
    {"not_synchronized", "host uses pinned memory before the copy has completed",
     "wait first: synchronize the stream or the device, or an event recorded after the copy"},
    {"unordered_streams", "unordered use on two streams",
     "record an event on the first stream and make the second stream wait for it "
     "(stream.wait_stream, event.wait); after an asynchronous collective, call work.wait() first"},
    {"freed_in_use", "memory freed while it is in use",
     "call tensor.record_stream(stream) for the stream that uses it, or keep the tensor alive "
     "until that stream has been synchronized"},
    {"memory_limit", "out of device memory",
     "use less memory, free tensors earlier, or raise SIM_MEMORY"},
    {"unordered_threads", "unordered launches from two host threads",
     "make one thread wait for the other before it launches (a lock, a queue, Thread.join, "
     "Future.result), or copy the tensor before the thread starts"},
    {"uninitialized", "read of uninitialized memory",
     "fill the tensor first, or create it with zeros()"},
    {"leak", "memory still allocated at exit",
     "drop the last reference to the tensor; look for reference cycles through C++ objects, such "
     "as "
     "an output that a custom autograd function stores in its context without save_for_backward()"},
    {"other_accelerator", "device of another accelerator",
     "take the device from get_accelerator() (device_name(), current_device_name()) or from a "
     "tensor"},
    {"rejected", "call that the device rejects", "change the call as the error message says"},
    {"out_of_bounds", "kernel writes outside of a tensor's memory",
     "correct the kernel's indices: check them against the tensor's sizes, strides and storage "
     "offset, especially in the last block of a loop"},
    {"unseeded_device", "only the host's random numbers are seeded",
     "call torch.manual_seed(seed), which seeds the host and all devices, or seed the device's "
     "generator"},
}};

const Words& words(Kind kind) { return kWords[static_cast<std::size_t>(kind)]; }

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
      out += code;
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string list(const std::vector<std::string>& values) {
  std::string out = "[";
  for (const auto& value : values) out += (out.size() == 1 ? "" : ", ") + quoted(value);
  return out + "]";
}

std::string json(const Part& part) {
  return "{\"op\": " + quoted(part.op) + ", \"stream\": " + quoted(part.stream) +
         ", \"shape\": " + quoted(part.shape) +
         ", \"stream_created\": " + quoted(part.stream_created) +
         ", \"stack\": " + list(part.stack) + "}";
}

std::string json(const Problem& problem) {
  std::string out = std::string("{\"kind\": ") + quoted(name(problem.kind)) +
                    ", \"what\": " + quoted(problem.what) + ", \"op\": " + quoted(problem.now.op) +
                    ", \"stream\": " + quoted(problem.now.stream) +
                    ", \"shape\": " + quoted(problem.now.shape) +
                    ", \"line\": " + quoted(problem.line) +
                    ", \"stream_created\": " + quoted(problem.now.stream_created) +
                    ", \"stack\": " + list(problem.now.stack);
  if (!problem.before.op.empty()) out += ", \"before\": " + json(problem.before);
  return out + ", \"remedy\": " + quoted(remedy(problem.kind)) +
         ", \"seen\": " + std::to_string(problem.seen) +
         ", \"similar\": " + std::to_string(problem.similar) + "}";
}

void add_part(std::string& out, const char* label, const Part& part) {
  out += std::string("  ") + label + part.op;
  if (!part.stream.empty()) out += ", " + part.stream;
  if (!part.shape.empty()) out += ", " + part.shape;
  out += '\n';
}

void add_stack(std::string& out, const char* label, const std::vector<std::string>& stack) {
  if (stack.empty()) return;
  out += std::string("  ") + label + "\n";
  for (const auto& frame : stack) out += "    " + frame + "\n";
}

}  // namespace

std::span<const Kind> all_kinds() noexcept {
  static const auto kinds = [] {
    std::array<Kind, kWords.size()> result{};
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = static_cast<Kind>(i);
    return result;
  }();
  return kinds;
}

const char* name(Kind kind) noexcept { return words(kind).name; }
const char* title(Kind kind) noexcept { return words(kind).title; }
const char* remedy(Kind kind) noexcept { return words(kind).remedy; }

std::string text(const Problem& problem, const std::string& rank, const char* prefix) {
  std::string out = "anyaccel: sim check: " + (rank.empty() ? "" : "rank " + rank + ": ") + prefix +
                    title(problem.kind) + " (" + name(problem.kind) + ")\n";
  out += "  " + problem.what + "\n";
  add_part(out, "op:     ", problem.now);
  if (!problem.before.op.empty()) add_part(out, "before: ", problem.before);
  for (const auto* part : {&problem.now, &problem.before})
    if (!part->stream_created.empty() &&
        (part == &problem.now || part->stream != problem.now.stream))
      out += "  stream: " + part->stream + " was created at " + part->stream_created + "\n";
  if (!problem.line.empty()) out += "  line:   " + problem.line + "\n";
  out += std::string("  do:     ") + remedy(problem.kind) + "\n";
  add_stack(out, "at:", problem.now.stack);
  add_stack(out, "before, at:", problem.before.stack);
  return out;
}

std::string json(const std::vector<Problem>& problems, const std::vector<Problem>& notes,
                 const std::string& rank) {
  const auto lines = [](const std::vector<Problem>& all) {
    std::string out;
    for (const auto& problem : all) out += (&problem == all.data() ? "\n" : ",\n") + json(problem);
    return out;
  };
  return "{\"tool\": \"anyaccel sim check\", \"version\": 1, " +
         (rank.empty() ? "" : "\"rank\": " + rank + ", ") + "\"problems\": [" + lines(problems) +
         "], \"notes\": [" + lines(notes) + "]}\n";
}

}  // namespace anyaccel::backends::sim::checking
