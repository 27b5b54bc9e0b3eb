#include <sys/stat.h>

#include <cstdlib>
#include <string_view>

#include "base/file.h"
#include "build/cache.h"
#include "build/sha256.h"

namespace anyaccel::build {

namespace fs = std::filesystem;

namespace {
constexpr const char* kFirstLine = "anyaccel_op_library = 1";
}

std::string Manifest::text() const {
  std::string out = std::string(kFirstLine) + "\nop = " + op + "\ncontent = " + content +
                    "\nkey = " + key + "\nsha256 = " + sha256 + "\n";
  for (const auto& file : external)
    out += "external = " + std::to_string(file.bytes) + " " + std::to_string(file.time) + " " +
           file.digest + " " + file.path + "\n";
  for (const auto& [name, value] : parts) {
    std::string line = name;
    line.append(" = ").append(value);
    for (char& c : line)
      if (static_cast<unsigned char>(c) < 0x20) c = ' ';
    out += "# " + line + "\n";
  }
  return out + "end\n";
}

std::optional<Manifest> parse_manifest(const std::string& text) {
  // The last line marks the file as complete.
  if (!text.starts_with(std::string(kFirstLine) + "\n") || !text.ends_with("\nend\n"))
    return std::nullopt;
  Manifest out;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    auto line = text.substr(at, end - at);
    at = end + 1;
    const bool part = line.starts_with("# ");
    if (part) line.erase(0, 2);
    const auto equals = line.find(" = ");
    if (equals == std::string::npos) continue;
    const auto name = line.substr(0, equals);
    const auto value = line.substr(equals + 3);
    if (part) {
      out.parts.emplace_back(name, value);
    } else if (name == "external") {
      char* rest = nullptr;
      ExternalFile file;
      file.bytes = std::strtoll(value.c_str(), &rest, 10);
      file.time = std::strtoll(rest, &rest, 10);
      constexpr std::size_t kDigest = 64;
      const std::string_view left = rest;
      if (left.size() < kDigest + 3 || left[0] != ' ' || left[kDigest + 1] != ' ')
        return std::nullopt;
      file.digest = left.substr(1, kDigest);
      file.path = left.substr(kDigest + 2);
      out.external.push_back(std::move(file));
    } else if (name == "op") {
      out.op = value;
    } else if (name == "content") {
      out.content = value;
    } else if (name == "key") {
      out.key = value;
    } else if (name == "sha256") {
      out.sha256 = value;
    }
  }
  return out;
}

std::optional<Held> hold(const fs::path& library, std::string& problem) {
  const fs::path file = library.string() + kManifestSuffix;
  Held out{.library = library};
  // Lock before reading, so that no other process can remove the library afterwards.
  out.use = FileLock::try_shared(file);
  if (!out.use || !out.use.is_at(file)) return std::nullopt;
  const auto text = try_read_file(file);
  auto manifest = text ? parse_manifest(*text) : std::nullopt;
  if (!manifest) return problem = file.string() + " is not a complete manifest", std::nullopt;
  out.manifest = std::move(*manifest);
  const auto content = try_read_file(library, kMaxLibrary);
  if (!content) return problem = library.string() + " cannot be read", std::nullopt;
  if (sha256(*content) != out.manifest.sha256)
    return problem = library.string() + " is damaged: its checksum does not match", std::nullopt;
  return out;
}

}  // namespace anyaccel::build
