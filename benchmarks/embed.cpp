// Times embedding one text and 32 texts: `bench_embed MODEL FILE`, with one text per line in FILE.
// Prints milliseconds per call, including tokenization. Writes the vectors to FILE.ours.npy;
// embed.py compares the vectors of other libraries with them.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "anyaccel/llm/embed.h"
#include "anyaccel/llm/npy.h"
#include "timing.h"

namespace {

// Returns the median of 21 calls after 3 warm-up calls, as embed.py does for the other libraries.
template <typename Call>
double milliseconds(const Call& call) {
  std::vector<double> times;
  for (int i = 0; i < 24; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    if (i >= 3) times.push_back(took.count());
  }
  std::nth_element(times.begin(), times.begin() + 10, times.end());
  return times[10];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: bench_embed MODEL FILE\n");
    return 2;
  }
  std::vector<std::string> texts;
  std::ifstream file(argv[2]);
  for (std::string line; texts.size() < 32 && std::getline(file, line);) texts.push_back(line);
  const auto embedder = anyaccel::llm::Embedder::load(argv[1]);
  anyaccel::llm::write_npy(argv[2] + std::string(".ours.npy"), embedder.embed(texts));
  benchmarks::Numbers numbers;
  for (const std::size_t count : {std::size_t{1}, texts.size()}) {
    const std::vector<std::string> some(texts.begin(),
                                        texts.begin() + static_cast<std::ptrdiff_t>(count));
    numbers.add("texts_" + std::to_string(count) + "_ms",
                milliseconds([&] { (void)embedder.embed(some); }));
  }
  numbers.print();
}
