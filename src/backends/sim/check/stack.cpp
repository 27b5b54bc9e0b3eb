#include "backends/sim/check/stack.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "backends/sim/check/symbols.h"

namespace anyaccel::backends::sim::checking {

namespace {

constexpr int kMaxFrames = 96;
constexpr std::size_t kMaxShown = 40;
constexpr std::size_t kLongestName = 160;

std::string demangled(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 && text != nullptr ? text : name;
  std::free(text);
  // Names of template instances can be very long.
  if (result.size() > kLongestName) result = result.substr(0, kLongestName) + "...";
  return result;
}

const char* file_name(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

std::string in_hex(std::uintptr_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%zx", static_cast<std::size_t>(value));
  return text;
}

/// True for libraries without symbols for their internal functions. Their frames are not
/// informative.
bool is_torch(const char* file) {
  return std::strncmp(file, "libtorch", 8) == 0 || std::strncmp(file, "libc10", 6) == 0;
}

/// True for a frame of the Python interpreter, whose own stack is more informative. The interpreter
/// is a library or the program.
bool is_interpreter(const Stack& stack, const Dl_info& info, const void* program) {
  return !stack.interpreter.empty() &&
         (info.dli_fbase == program ||
          std::strncmp(file_name(info.dli_fname), "libpython", 9) == 0);
}

/// Returns an empty string for a frame that is not informative.
std::string frame_text(void* address, const Dl_info& info, bool of_program) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const auto base = reinterpret_cast<std::uintptr_t>(info.dli_fbase);
  const std::string place = std::string(" (") + file_name(info.dli_fname) + ")";
  if (info.dli_sname != nullptr)
    return demangled(info.dli_sname) + " + " +
           in_hex(at - reinterpret_cast<std::uintptr_t>(info.dli_saddr)) + place;
  if (is_torch(file_name(info.dli_fname))) return {};
  const auto symbol = symbol_in_file(of_program ? "/proc/self/exe" : info.dli_fname, at - base - 1);
  if (symbol.name.empty()) return in_hex(at - base) + place;
  return demangled(symbol.name.c_str()) + " + " + in_hex(at - base - symbol.start) + place;
}

/// The program's load address. The path is not suitable, because it may be relative to an earlier
/// working directory.
void* program_base() {
  static void* const base = [] {
    Dl_info info{};
    const auto* entry = reinterpret_cast<void*>(::getauxval(AT_ENTRY));
    return ::dladdr(entry, &info) != 0 ? info.dli_fbase : nullptr;
  }();
  return base;
}

/// Returns the text that Python's faulthandler prints. Calls the same function, which neither takes
/// locks nor allocates memory.
std::vector<std::string> python_stack() {
  using Dump = void (*)(int, void*);
  using State = void* (*)();
  static const auto dump = reinterpret_cast<Dump>(::dlsym(RTLD_DEFAULT, "_Py_DumpTraceback"));
  static const auto state =
      reinterpret_cast<State>(::dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState"));
  std::vector<std::string> lines;
  if (dump == nullptr || state == nullptr || state() == nullptr) return lines;
  const int file = ::memfd_create("anyaccel-stack", MFD_CLOEXEC);
  if (file < 0) return lines;
  dump(file, state());
  std::string text(1 << 14, '\0');
  const auto size = ::pread(file, text.data(), text.size(), 0);
  ::close(file);
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    const auto first = line.find_first_not_of(' ');
    if (first != std::string::npos && line.rfind("Stack (most", 0) != 0)
      lines.push_back(line.substr(first));
  }
  return lines;
}

}  // namespace

Frames capture_frames() {
  void* addresses[kMaxFrames];
  const int count = ::backtrace(addresses, kMaxFrames);
  return Frames(addresses + (count > 0 ? 1 : 0), addresses + count);
}

Stack capture_stack() { return {.frames = capture_frames(), .interpreter = python_stack()}; }

std::string caller(const Stack& stack) {
  for (const auto& line : stack.interpreter)
    if (line.find("-packages/") == std::string::npos &&
        line.find("/lib/python3") == std::string::npos && line.find("\"<") == std::string::npos)
      return line;
  if (!stack.interpreter.empty()) return stack.interpreter.front();
  Dl_info own{};
  ::dladdr(reinterpret_cast<void*>(&capture_frames), &own);
  for (void* address : stack.frames) {
    Dl_info info{};
    if (::dladdr(address, &info) == 0 || info.dli_fname == nullptr) continue;
    const auto* file = file_name(info.dli_fname);
    const bool of_program = info.dli_fbase == program_base();
    if (!of_program &&
        (info.dli_fbase == own.dli_fbase || is_torch(file) ||
         std::strncmp(file, "libstdc++", 9) == 0 || std::strncmp(file, "libc.", 5) == 0 ||
         std::strncmp(file, "libanyaccel", 11) == 0))
      continue;
    return frame_text(address, info, of_program);
  }
  return {};
}

std::size_t place(const Stack& stack) {
  std::size_t hash = stack.interpreter.empty() ? stack.frames.size() : 0;
  const auto mix = [&hash](std::size_t value) { hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL; };
  if (stack.interpreter.empty())
    for (void* frame : stack.frames) mix(reinterpret_cast<std::size_t>(frame));
  for (const auto& line : stack.interpreter) mix(std::hash<std::string>()(line));
  return hash;
}

std::vector<std::string> stack_text(const Stack& stack) {
  auto lines = stack.interpreter;
  Dl_info own{};
  ::dladdr(reinterpret_cast<void*>(&capture_frames), &own);
  // If the simulator is linked into the program, its frames cannot be distinguished from the
  // program's.
  bool outside = own.dli_fbase == program_base();
  std::size_t number = 0;
  for (void* address : stack.frames) {
    Dl_info info{};
    if (::dladdr(address, &info) == 0 || info.dli_fname == nullptr) continue;
    outside |= info.dli_fbase != own.dli_fbase;
    if (!outside) continue;
    // The interpreter's own stack shows the rest.
    if (is_interpreter(stack, info, program_base())) break;
    const auto line = frame_text(address, info, info.dli_fbase == program_base());
    if (line.empty()) continue;
    lines.push_back("#" + std::to_string(number++) + " " + line);
    if (number == kMaxShown) break;
  }
  return lines;
}

}  // namespace anyaccel::backends::sim::checking
