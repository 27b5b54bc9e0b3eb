// A folder of plugins, as a plugin author's build creates it.
#pragma once

#include <sys/stat.h>

#include <fstream>
#include <sstream>
#include <string>

#include "base/plugin/build_identity.h"
#include "unit/llm/temporary_folder.h"

namespace anyaccel::test {

/// Returns the text file that a build against this AnyAccel would write. Lines in `changed` replace
/// lines with the same key.
inline std::string plugin_text(const std::string& name, const std::string& library,
                               const std::string& changed = {}) {
  const auto& own = own_identity();
  std::ostringstream lines;
  lines << "anyaccel_plugin = 1\nname = " << name << "\nlibrary = " << library
        << "\nabi = " << own.abi << "\nanyaccel = " << own.anyaccel
        << "\nlibtorch = " << own.libtorch << "\ncompiler_abi = " << own.compiler_abi
        << "\nsanitizer = " << own.sanitizer
        << "\nclass_name = Fake_Accelerator\ndevice_type = cpu\nprobe_count = 1\n";
  std::istringstream in(lines.str());
  std::string out;
  for (std::string line; std::getline(in, line);)
    if (("\n" + changed).find("\n" + line.substr(0, line.find(' ')) + " =") == std::string::npos)
      out += line + "\n";
  return out + changed;
}

class PluginFolder : public llm::TemporaryFolder {
 public:
  /// Writes NAME.plugin and a copy of `library`. Both are readable by everyone and writable only by
  /// this user.
  std::filesystem::path add(const std::string& name, const std::filesystem::path& library,
                            const std::string& changed = {}) const {
    const auto copy = path() / ("lib" + name + ".so");
    std::filesystem::copy_file(library, copy);
    ::chmod(copy.c_str(), 0755);
    return add_text(name, plugin_text(name, copy.filename().string(), changed));
  }
  std::filesystem::path add_text(const std::string& name, const std::string& text) const {
    auto file = write(name + ".plugin", text);
    ::chmod(file.c_str(), 0644);
    return file;
  }
};

}  // namespace anyaccel::test
