// Tests queries to Python packages, from a process without Python and from a Python process.
#include "backends/torch/python_query.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "test_paths.h"

namespace anyaccel::sdk {
namespace {

/// Returns the environment variables that a program built without AddressSanitizer needs to load
/// this build's libraries. Returns an empty string if the libraries do not use AddressSanitizer.
std::string sanitizer() {
  Dl_info runtime{};
  void* start = dlsym(RTLD_DEFAULT, "__asan_init");
  if (start == nullptr || dladdr(start, &runtime) == 0) return {};
  return "ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD=" + std::string(runtime.dli_fname) + " ";
}

/// Runs a Python program that can call ask_python as `ask(module, function) -> (answer, reason)`.
/// Returns the program's output.
std::string python(const std::string& body) {
  const std::string program =
      "import ctypes, types, sys\n"
      "library = ctypes.CDLL('" ANYACCEL_BUILD_DIR
      "/lib/libpython_question.so')\n"
      "def ask(module, function):\n"
      "    reason = ctypes.create_string_buffer(500)\n"
      "    answer = library.ask(module.encode(), function.encode(), reason, 500)\n"
      "    return answer, reason.value.decode()\n"
      "def pair(module, function, argument):\n"
      "    reason = ctypes.create_string_buffer(500)\n"
      "    numbers = (ctypes.c_longlong * 2)()\n"
      "    answer = library.ask_pair(module.encode(), function.encode(), argument, numbers, "
      "reason, 500)\n"
      "    return list(numbers) if answer == 1 else reason.value.decode()\n"
      "vendor = types.ModuleType('vendor')\n"
      "sys.modules['vendor'] = vendor\n" +
      body;
  setenv("ANYACCEL_TEST_PROGRAM", program.c_str(), 1);
  std::string output;
  FILE* pipe = popen((sanitizer() + "python3 -c \"$ANYACCEL_TEST_PROGRAM\" 2>&1").c_str(), "r");
  for (int c; (c = std::fgetc(pipe)) != EOF;) output += static_cast<char>(c);
  pclose(pipe);
  return output;
}

bool has_python() { return std::system("python3 -c '' >/dev/null 2>&1") == 0; }

// Fails if a process without Python gets an answer, or does not get a reason.
TEST(PythonQuery, NoAnswerWithoutPython) {
  const auto answer = ask_python("sys", "is_finalizing");
  EXPECT_FALSE(answer.value.has_value());
  EXPECT_THAT(answer.reason, testing::HasSubstr("no Python interpreter"));
}

// Fails if the return value of the vendor's function is lost.
TEST(PythonQuery, ReturnsTheModulesAnswer) {
  if (!has_python()) GTEST_SKIP() << "no python3";
  EXPECT_EQ(python("vendor.yes = lambda: True\nvendor.no = lambda: False\nprint(ask('vendor', "
                   "'yes')[0], ask('vendor', "
                   "'no')[0])"),
            "1 0\n");
}

// Fails if a missing module or a failing function gives no reason, or leaves a Python exception
// set.
TEST(PythonQuery, FailuresGiveReasons) {
  if (!has_python()) GTEST_SKIP() << "no python3";
  const auto output = python(
      "def raises(): raise ValueError\nvendor.raises = raises\n"
      "print(ask('no_such_vendor', 'x'))\nprint(ask('vendor', 'none'))\nprint(ask('vendor', "
      "'raises'))\nprint('end')");
  EXPECT_EQ(output,
            "(-1, 'Python cannot import no_such_vendor')\n(-1, 'vendor has no none')\n(-1, "
            "'vendor.raises() failed')\nend\n");
}

// Fails if the argument or one of two numbers is lost, a number is cut to 32 bits, or another
// result gives no reason.
TEST(PythonQuery, ReturnsTwoNumbers) {
  if (!has_python()) GTEST_SKIP() << "no python3";
  EXPECT_EQ(python("vendor.memory = lambda device: (device << 33, 1 << 40)\n"
                   "vendor.word = lambda device: 'x'\n"
                   "print(pair('vendor', 'memory', 3), pair('vendor', 'word', 0), sep='\\n')\n"
                   "print(pair('vendor', 'none', 0))"),
            "[25769803776, 1099511627776]\nvendor.word() did not return two integers\n"
            "vendor has no none\n");
}

// Fails if a query from a native thread does not acquire and release the GIL.
TEST(PythonQuery, WorksOnNativeThreads) {
  if (!has_python()) GTEST_SKIP() << "no python3";
  EXPECT_EQ(python("import threading\nvendor.yes = lambda: True\nseen = []\n"
                   "threads = [threading.Thread(target=lambda: seen.extend(ask('vendor', 'yes')[0] "
                   "for _ in range(50))) "
                   "for _ in range(4)]\n"
                   "[t.start() for t in threads]\n[t.join() for t in threads]\nprint(sum(seen))"),
            "200\n");
}

}  // namespace
}  // namespace anyaccel::sdk
