// Prints the examples and rows that are read from training data, for Python tests to compare.
// usage: training_data_probe MODEL CONTEXT PACKING SEED FILE...
//
// Prints one JSON object per example, with its ids and labels, and then one per row, with the
// example, the first token and the length of each part. Lines that are skipped come last.
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "anyaccel/llm/config.h"
#include "llm/data/examples.h"
#include "llm/data/rows.h"

int main(int argc, char** argv) {
  using namespace anyaccel::llm;
  if (argc < 6) return 2;
  try {
    const ModelConfig config = ModelConfig::read(argv[1]);
    const ExampleEncoder encoder(argv[1], config.vocab_size,
                                 config.eos_token_ids.empty() ? -1 : config.eos_token_ids[0]);
    ExampleStore store(config.vocab_size);
    const DataCounts counts =
        read_examples({argv + 5, argv + argc}, encoder, /*skip_bad_lines=*/true, store);
    for (std::size_t i = 0; i < store.size(); ++i) {
      std::vector<std::int64_t> ids(store.length(i)), labels(ids.size());
      store.read(i, 0, store.length(i), ids.data(), labels.data());
      std::cout << nlohmann::json{{"ids", ids}, {"labels", labels}}.dump() << "\n";
    }
    const Rows rows(store, std::stoll(argv[2]), std::stoi(argv[3]) != 0, std::stoull(argv[4]));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      nlohmann::json parts = nlohmann::json::array();
      for (const RowPart& part : rows.row(i))
        parts.push_back({part.example, part.begin, part.length});
      std::cout << nlohmann::json{{"parts", parts}}.dump() << "\n";
    }
    for (const std::string& reason : counts.bad_reasons)
      std::cout << nlohmann::json{{"bad", reason}}.dump() << "\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
