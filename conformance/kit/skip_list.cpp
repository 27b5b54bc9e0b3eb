#include "skip_list.h"

#include <filesystem>
#include <fstream>
#include <istream>
#include <sstream>
#include <utility>

#include "anyaccel/pattern.h"

namespace anyaccel::conformance {

namespace {

// Returns (backend name, skip list) pairs, which CMake generates.
const std::vector<std::pair<const char*, const char*>>& built_in() {
  static const std::vector<std::pair<const char*, const char*>> lists{
#include "built_skip_lists.inc"
  };
  return lists;
}

}  // namespace

std::vector<ListedCase> read_skip_list(std::istream& in, const std::string& name) {
  std::vector<ListedCase> list;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    std::istringstream words(line);
    std::string kind;
    ListedCase item;
    if (!(words >> kind) || kind[0] == '#') continue;
    words >> item.pattern >> std::ws;
    std::getline(words, item.reason);
    const bool known = kind == "unsupported" || kind == "expected-failure";
    if (!known || item.reason.empty())
      throw Error(ErrorCode::invalid_argument, "conformance",
                  {.what = name + ", line " + std::to_string(number) + ": invalid skip-list entry",
                   .got = "'" + line.substr(0, 200) + "'",
                   .want = "unsupported|expected-failure PATTERN REASON"});
    item.kind =
        kind == "unsupported" ? ListedCase::Kind::unsupported : ListedCase::Kind::expected_failure;
    list.push_back(std::move(item));
  }
  return list;
}

std::vector<ListedCase> built_in_skip_list(const std::string& backend) {
  std::vector<ListedCase> list;
  for (const auto& [name, text] : built_in()) {
    if (backend != name) continue;
    std::istringstream in(text);
    list = read_skip_list(in, "the skip list of " + backend);
  }
  return list;
}

std::vector<ListedCase> skip_list_of(const std::string& backend, const Options& options) {
  auto list = built_in_skip_list(backend);
  for (const auto& file : options.skip_lists) {
    std::error_code error;
    const auto status = std::filesystem::status(file, error);
    std::ifstream in;
    // Reading other kinds of files, such as devices, could block or never reach end-of-file.
    if (std::filesystem::is_regular_file(status) || std::filesystem::is_fifo(status)) in.open(file);
    if (!in.is_open())
      throw Error(ErrorCode::not_found, "conformance",
                  {.what = "cannot read the skip list", .got = file});
    for (auto& item : read_skip_list(in, file)) list.push_back(std::move(item));
  }
  return list;
}

const ListedCase* find_listed(const std::vector<ListedCase>& list,
                              const std::string& full_name) noexcept {
  const ListedCase* found = nullptr;
  for (const auto& item : list)
    if (matches_pattern(item.pattern, full_name)) found = &item;
  return found;
}

}  // namespace anyaccel::conformance
