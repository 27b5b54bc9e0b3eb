#include "launch/environment_file.h"

#include <algorithm>

#include "anyaccel/error.h"
#include "base/env.h"
#include "base/file.h"
#include "base/trimmed.h"

namespace anyaccel::launch {

namespace {

bool is_name(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !text.empty() && !(text.front() >= '0' && text.front() <= '9') &&
         std::all_of(text.begin(), text.end(), fits);
}

}  // namespace

void set(Variables& variables, const std::string& name, std::string value) {
  for (auto& one : variables)
    if (one.first == name) {
      one.second = std::move(value);
      return;
    }
  variables.emplace_back(name, std::move(value));
}

Variables parse_environment_file(std::string_view text, const std::string& name) {
  Variables out;
  for (int number = 1; !text.empty(); ++number) {
    const auto end = text.find('\n');
    const auto line = trimmed(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty() || line.front() == '#') continue;
    const auto equals = line.find('=');
    const auto variable = trimmed(line.substr(0, equals));
    if (equals == std::string_view::npos || !is_name(variable) ||
        line.find('\0') != std::string_view::npos)
      throw Error(ErrorCode::invalid_argument, "launch",
                  {.what = name + ":" + std::to_string(number) + " does not set a variable",
                   .got = "'" + std::string(line) + "'",
                   .want = "`NAME=VALUE`, an empty line, or a comment that begins with #"});
    set(out, std::string(variable), std::string(trimmed(line.substr(equals + 1))));
  }
  return out;
}

Variables environment_files() {
  const std::filesystem::path name = env("DS_ENV_FILE").value_or(".deepspeed_env");
  std::vector<std::filesystem::path> files;
  if (const auto home = env("HOME"))
    files.push_back(*home / name);  // if `name` is an absolute path, the result is `name`
  std::error_code error;
  const auto here = std::filesystem::absolute(name, error);
  if (files.empty() || !std::filesystem::equivalent(files.front(), here, error))
    files.push_back(here);
  Variables out;
  for (const auto& file : files) {
    if (!std::filesystem::is_regular_file(file, error)) continue;
    for (auto& [variable, value] : parse_environment_file(read_file(file), file.string()))
      set(out, variable, std::move(value));
  }
  return out;
}

std::string assignment(std::string name, const std::string& value) {
  return name.append("=").append(value);
}

}  // namespace anyaccel::launch
