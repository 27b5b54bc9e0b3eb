#include "build/description.h"

#include <algorithm>
#include <array>
#include <set>

#include "anyaccel/error.h"
#include "base/file.h"
#include "base/trimmed.h"
#include "base/untrusted_text.h"
#include "build/flags.h"

namespace anyaccel::build {

namespace {

constexpr const char* kWhere = "op description";

struct Line {
  int number;
  std::string key;
  std::string value;
};

[[noreturn]] void fail(const Line& line, const std::string& what, const std::string& want = {}) {
  throw Error(ErrorCode::corrupt, kWhere,
              {.what = "line " + std::to_string(line.number) + ": " + what,
               .got = quoted_text(line.value),
               .want = want});
}

bool all_of(std::string_view text, std::string_view more) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           more.find(static_cast<char>(c)) != more.npos;
  });
}

std::vector<Line> read_lines(std::string_view text) {
  std::vector<Line> out;
  for (int number = 1; !text.empty(); ++number) {
    const auto end = text.find('\n');
    const auto line = trimmed(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (line.empty() || line.front() == '#') continue;
    const auto equals = line.find('=');
    const Line whole{number, {}, std::string(line)};
    if (std::any_of(line.begin(), line.end(),
                    [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
      throw Error(ErrorCode::corrupt, kWhere,
                  {.what = "line " + std::to_string(number) + " contains a control character"});
    if (equals == std::string_view::npos) fail(whole, "not `key = value`");
    Line made{number, std::string(trimmed(line.substr(0, equals))),
              std::string(trimmed(line.substr(equals + 1)))};
    if (made.value.empty()) fail(whole, quoted_text(made.key) + " has no value");
    out.push_back(std::move(made));
  }
  return out;
}

/// Parses a relative path that must not leave its base folder.
std::string path_of(const Line& line, std::string_view value) {
  const std::filesystem::path path{std::string(value)};
  const bool outside =
      path.empty() || path.is_absolute() ||
      std::any_of(path.begin(), path.end(), [](const auto& part) { return part == ".."; });
  if (outside || value.front() == '-' || !all_of(value, "_-+./"))
    fail(line, "not a path below the op's folder", "a relative path, such as kernels/a.cpp");
  return std::string(value);
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> out;
  for (text = trimmed(text); !text.empty(); text = trimmed(text)) {
    const auto end = std::min(text.find(' '), text.size());
    out.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return out;
}

std::vector<std::string> flags_of(const Line& line, std::string_view text, FlagsOf compiler) {
  auto flags = words_of(text);
  if (const auto problem = find_flag_problem(flags, compiler))
    fail(line, problem->what, problem->want);
  return flags;
}

Source source_of(const Line& line) {
  const std::string_view value = line.value;
  const auto colon = value.find(':');
  Source out;
  auto names = trimmed(value.substr(0, colon));
  do {
    const auto end = std::min(names.find(' '), names.size());
    out.files.push_back(path_of(line, names.substr(0, end)));
    names = trimmed(names.substr(end));
  } while (!names.empty());
  if (colon != std::string_view::npos)
    out.flags =
        flags_of(line, value.substr(colon + 1), out.is_cuda() ? FlagsOf::nvcc : FlagsOf::host);
  for (const auto& file : out.files) {
    const auto type = std::filesystem::path(file).extension();
    if (type != ".cpp" && type != ".cc" && type != ".c" && type != ".cu")
      fail(line, "not a source file", "a .cpp, .cc, .c or .cu file");
    if (out.files.size() > 1 && type != ".cpp" && type != ".cc")
      fail(line, quoted_text(file) + " cannot share a line with other sources",
           "only C++ sources, or one line per source");
  }
  return out;
}

NeededHeader header_of(const Line& line) {
  const std::string_view value = line.value;
  const auto colon = value.find(':');
  const auto header = trimmed(value.substr(0, colon));
  if (!all_of(header, "_-+./")) fail(line, "not a header", "header: package");
  return {std::string(header), colon == std::string_view::npos
                                   ? std::string()
                                   : std::string(trimmed(value.substr(colon + 1)))};
}

bool read_list(const Line& line, Description& out) {
  if (line.key == "backends") {
    std::string_view left = line.value;
    while (!left.empty()) {
      const auto end = std::min(left.find(','), left.size());
      const auto name = trimmed(left.substr(0, end));
      left.remove_prefix(std::min(end + 1, left.size()));
      if (name != "*" && !all_of(name, "_"))
        fail(line, "not a list of backend names", "backend names, such as cpu, or *");
      out.backends.emplace_back(name);
    }
  } else if (line.key == "source") {
    out.sources.push_back(source_of(line));
  } else if (line.key == "shared_source") {
    out.sources.push_back(source_of(line));
    out.sources.back().shared = true;
  } else if (line.key == "header") {
    out.headers.push_back(header_of(line));
  } else if (line.key == "link") {
    if (line.value.front() == '-' || !all_of(line.value, "_-+."))
      fail(line, "not a library name", "a name, such as uring");
    out.links.push_back(line.value);
  } else if (line.key == "flag") {
    for (auto& flag : flags_of(line, line.value, FlagsOf::host))
      out.flags.push_back(std::move(flag));
  } else if (line.key == "prefix") {
    if (line.value.front() != '/' || !all_of(line.value, "_-+./"))
      fail(line, "not an absolute path", "an absolute path, such as /opt/vendor/latest");
    out.prefixes.push_back(line.value);
  } else if (line.key == "include" || line.key.ends_with("_include")) {
    out.includes.push_back(path_of(line, line.value));
  } else {
    return false;
  }
  return true;
}

void read_single(const Line& line, Description& out) {
  if (line.key == "class_name") {
    if (!all_of(line.value, "_") || !line.value.ends_with("Builder"))
      fail(line, "not the class name of a builder",
           "a name that ends in Builder, such as CPUAdamBuilder");
    out.class_name = line.value;
  } else if (line.key == "name") {
    if (!all_of(line.value, "_") || line.value.size() > 64)
      fail(line, "not an op name", "at most 64 letters, digits and underscores");
    out.name = line.value;
  } else if (line.key == "kernel_path" || line.key.ends_with("_kernel_path")) {
    out.kernel_path = path_of(line, line.value);
  } else if (line.key == "prefix_variable") {
    if (!all_of(line.value, "_"))
      fail(line, "not a variable name", "a variable name, such as CCL_ROOT");
    out.prefix_variable = line.value;
  } else if (line.key == "compiler") {
    if (line.value.front() == '-' || !all_of(line.value, "_-+./"))
      fail(line, "not a program name or path");
    out.compiler = line.value;
  } else if (line.key == "python") {
    if (line.value.front() != '/' || !all_of(line.value, "_-+./"))
      fail(line, "not an absolute path",
           "the absolute path of the folder that contains Python.h, such as "
           "/usr/include/python3.12");
    out.python = line.value;
  } else if (line.key == "torch") {
    if (line.value != "yes" && line.value != "no") fail(line, "neither yes nor no", "yes or no");
    out.torch = line.value == "yes";
  } else {
    fail({line.number, {}, line.key}, "unknown key", "a key from docs/reference/op-builders.md");
  }
}

void require(bool good, const char* what) {
  if (!good) throw Error(ErrorCode::corrupt, kWhere, {.what = what});
}

}  // namespace

std::string Source::name() const {
  std::string out;
  for (const auto& file : files) out += (out.empty() ? "" : " ") + file;
  return out;
}

bool Description::serves(std::string_view backend) const {
  return std::any_of(backends.begin(), backends.end(),
                     [&](const auto& one) { return one == "*" || one == backend; });
}

bool Description::names(std::string_view backend) const {
  return std::find(backends.begin(), backends.end(), backend) != backends.end();
}

bool Description::needs_nvcc() const {
  return std::any_of(sources.begin(), sources.end(),
                     [](const auto& source) { return source.is_cuda(); });
}

Description parse_description(std::string_view text) {
  const auto lines = read_lines(text);
  if (lines.empty())
    throw Error(ErrorCode::corrupt, kWhere,
                {.what = "the file is empty", .want = "`anyaccel_op = 1` as the first line"});
  if (lines.front().key != "anyaccel_op")
    fail({lines.front().number, {}, lines.front().key}, "not an op description",
         "`anyaccel_op = 1` as the first line");
  if (lines.front().value != "1")
    throw Error(ErrorCode::version_mismatch, kWhere,
                {.what = "unsupported format version",
                 .got = "'" + lines.front().value + "'",
                 .want = "1"});
  Description out;
  std::set<std::string> seen;
  for (auto line = lines.begin() + 1; line != lines.end(); ++line) {
    if (read_list(*line, out)) continue;
    if (!seen.insert(line->key).second)
      fail(*line, quoted_text(line->key) + " appears twice", "one value");
    read_single(*line, out);
  }
  require(!out.class_name.empty(), "`class_name` is missing");
  require(!out.name.empty(), "`name` is missing");
  require(!out.backends.empty(), "`backends` is missing");
  require(!out.sources.empty(), "`source` is missing");
  if (out.needs_nvcc())
    for (const auto& flag : out.flags)
      if (!is_safe_for_nvcc(flag))
        throw Error(ErrorCode::corrupt, kWhere,
                    {.what = "nvcc cannot use the flag " + quoted_text(flag) +
                             ", because the shell that nvcc starts expands $ and backquotes"});
  return out;
}

Op read_op(const std::filesystem::path& file) {
  const auto text = read_file(file);
  try {
    return {parse_description(text), std::filesystem::absolute(file).lexically_normal()};
  } catch (const Error& error) {
    throw Error(error.code(), file.string(), {.what = error.what()});
  }
}

}  // namespace anyaccel::build
