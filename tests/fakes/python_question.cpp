// A C interface to sdk::ask_python and ask_python_pair for tests that run in Python. Returns 1 for
// true, 0 for false, and -1 with the reason if there is no answer.
#include <cstdio>

#include "backends/torch/python_query.h"

extern "C" __attribute__((visibility("default"))) int ask(const char* module, const char* function,
                                                          char* reason, int size) {
  const auto answer = anyaccel::sdk::ask_python(module, function);
  std::snprintf(reason, static_cast<std::size_t>(size), "%s", answer.reason.c_str());
  return answer.value ? static_cast<int>(*answer.value) : -1;
}

/// Returns 1 and the numbers, or -1 with the reason.
extern "C" __attribute__((visibility("default"))) int ask_pair(const char* module,
                                                               const char* function, int argument,
                                                               long long* numbers, char* reason,
                                                               int size) {
  const auto answer = anyaccel::sdk::ask_python_pair(module, function, argument);
  std::snprintf(reason, static_cast<std::size_t>(size), "%s", answer.reason.c_str());
  if (!answer.value) return -1;
  numbers[0] = answer.value->first;
  numbers[1] = answer.value->second;
  return 1;
}
