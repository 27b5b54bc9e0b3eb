// Copies the example backend under a new name. The template is the example itself, which the tests
// build and run.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <string>

#include "anyaccel/error.h"
#include "base/file.h"
#include "base/plugin/plugin_file.h"
#include "base/untrusted_text.h"
#include "cli/front/front.h"
#include "cli/front/parser.h"

namespace anyaccel::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNewBackend = "new-backend";
/// Name of the backend in the template. The template does not use this word for anything else.
constexpr std::string_view kTemplate = "hostcard";

[[noreturn]] void fail(const std::string& what, const std::string& got, const std::string& want) {
  throw Error(ErrorCode::invalid_argument, kNewBackend,
              {.what = what, .got = quoted_text(got), .want = want});
}

void check_name(const std::string& name) {
  const bool letters = std::all_of(name.begin(), name.end(),
                                   [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
  // torch's device names have no digits, and C++ reserves names that contain "__".
  if (!is_plugin_name(name) || !letters || name.back() == '_' ||
      name.find("__") != std::string::npos)
    fail("not a valid backend name", name,
         "2 to 32 lowercase letters (a-z), optionally separated by single underscores, for example "
         "my_card");
  if (is_reserved_name(name))
    fail("this name is reserved by AnyAccel or torch for a backend or a device type", name,
         "another name, for example my_" + name);
}

void check_folder(const fs::path& folder) {
  std::error_code error;
  const auto status = fs::symlink_status(folder, error);
  if (status.type() == fs::file_type::not_found) return;
  if (!fs::is_directory(folder, error))
    fail("the path exists but is not a folder", folder.string(), "a new folder");
  if (!fs::is_empty(folder, error) || error)
    fail("the folder is not empty", folder.string(), "a new or empty folder");
}

fs::path find_template() {
  const fs::path folder =
      fs::path(own_folder()) / ".." / ANYACCEL_DATADIR / "anyaccel" / "backend_template";
  if (fs::is_regular_file(folder / "CMakeLists.txt")) return fs::canonical(folder);
  throw Error(ErrorCode::not_found, kNewBackend,
              {.what = "the project template is missing: no CMakeLists.txt in " + folder.string(),
               .hint = "reinstall AnyAccel, or keep its bin and share folders next to each other"});
}

/// Converts "my_card" to "MyCard".
std::string class_name(const std::string& name) {
  std::string out;
  bool upper = true;
  for (const char c : name) {
    if (c != '_') out += static_cast<char>(upper ? std::toupper(static_cast<unsigned char>(c)) : c);
    upper = c == '_';
  }
  return out;
}

std::string renamed(std::string text, const std::string& name) {
  const auto replace = [&](const std::string& from, const std::string& to) {
    for (auto place = text.find(from); place != std::string::npos;
         place = text.find(from, place + to.size()))
      text.replace(place, from.size(), to);
  };
  // Use a placeholder, because the new name may contain the name of the template's backend.
  const std::string own(kTemplate);
  replace(class_name(own), "\x01");
  replace(own, name);
  replace("\x01", class_name(name));
  return text;
}

void copy_project(const fs::path& from, const fs::path& to, const std::string& name) {
  for (const auto& entry : fs::recursive_directory_iterator(from)) {
    const auto place = to / renamed(fs::relative(entry.path(), from).string(), name);
    if (entry.is_directory()) {
      fs::create_directories(place);
    } else {
      fs::create_directories(place.parent_path());
      write_file_atomically(place, renamed(read_file(entry.path()), name));
    }
  }
}

/// Creates the project in a temporary folder and then moves it into place.
void make_project(const fs::path& folder, const std::string& name) {
  const auto source = find_template();
  const fs::path whole = fs::absolute(folder).lexically_normal();
  const fs::path target = whole.has_filename() ? whole : whole.parent_path();
  const fs::path aside = target.string() + ".part-" + std::to_string(::getpid());
  try {
    fs::create_directories(target.parent_path());
    copy_project(source, aside, name);
    if (fs::is_directory(target)) {
      // Keep an existing empty folder, because it may be the working directory of a shell.
      for (const auto& entry : fs::directory_iterator(aside))
        fs::rename(entry.path(), target / entry.path().filename());
      fs::remove(aside);
    } else {
      fs::rename(aside, target);
    }
  } catch (const fs::filesystem_error& error) {
    std::error_code ignored;
    fs::remove_all(aside, ignored);
    throw Error(ErrorCode::io, kNewBackend,
                {.what = "the project cannot be written: " + std::string(error.what())});
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(aside, ignored);
    throw;
  }
}

}  // namespace

int run_new_backend(std::span<const char* const> arguments) {
  const auto app = make_parser(
      kNewBackend,
      "Create a project for a backend outside AnyAccel's source tree. The project implements a "
      "device in host memory. It builds and passes its tests without changes. "
      "docs/how-to/new-backend.md explains "
      "how to replace the device with a real one, file by file.");
  std::string name;
  std::string directory;
  app->add_option("NAME", name,
                  "Name of the backend and of torch's device type: letters a-z and '_'")
      ->type_name("")
      ->required();
  app->add_option("DIR", directory, "New or empty folder for the project")
      ->type_name("")
      ->required();
  if (const auto code = parse_words(*app, arguments)) return *code;
  const fs::path folder = directory;
  if (folder.empty()) throw UsageError("new-backend: the folder name is empty");
  check_name(name);
  check_folder(folder);
  make_project(folder, name);
  auto prefix = fs::path(own_folder()).parent_path().string();
  // A build tree does not have a CMake package.
  if (!fs::exists(prefix + "/" ANYACCEL_LIBDIR "/cmake/anyaccel/anyaccelConfig.cmake"))
    prefix = "PREFIX_OF_ANYACCEL";
  std::printf(
      "Created the project for backend %s in %s. Build and test it:\n"
      "  cmake -S %s -B %s/build -DCMAKE_PREFIX_PATH=%s\n"
      "  cmake --build %s/build\n"
      "  ctest --test-dir %s/build --output-on-failure\n",
      name.c_str(), directory.c_str(), directory.c_str(), directory.c_str(), prefix.c_str(),
      directory.c_str(), directory.c_str());
  return 0;
}

}  // namespace anyaccel::cli
