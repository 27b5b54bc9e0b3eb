// A C interface to sdk::ask_python for tests that run in Python. Returns 1 for true, 0 for false,
// and -1 with the reason if there is no answer.
#include <cstdio>

#include "backends/torch/python_query.h"

extern "C" __attribute__((visibility("default"))) int ask(const char* module, const char* function,
                                                          char* reason, int size) {
  const auto answer = anyaccel::sdk::ask_python(module, function);
  std::snprintf(reason, static_cast<std::size_t>(size), "%s", answer.reason.c_str());
  return answer.value ? static_cast<int>(*answer.value) : -1;
}
