#include "base/trusted_path.h"

#include <dlfcn.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <set>
#include <sstream>
#include <vector>

#include "anyaccel/error.h"
#include "base/env.h"
#include "base/file.h"
#include "base/untrusted_text.h"

namespace anyaccel {

namespace {

namespace fs = std::filesystem;

/// The kernel's limit on the number of symbolic links in a path.
constexpr int kMaxLinks = 40;

/// True if the group is the primary group of another user. Such users do not appear in the group's
/// member list.
bool is_primary_group_of_others(gid_t group, const std::string& owner) {
  std::istringstream users(try_read_file("/etc/passwd").value_or(""));
  for (std::string line; std::getline(users, line);) {
    std::istringstream fields(line);  // The format is name:password:uid:gid:...
    std::string name, ignored, gid;
    std::getline(fields, name, ':');
    for (auto* field : {&ignored, &ignored, &gid}) std::getline(fields, *field, ':');
    if (gid == std::to_string(group) && name != owner) return true;
  }
  return false;
}

/// True if the group is the owner's private group: it has the owner's name and no other members.
/// Debian, Ubuntu and Fedora create such a group for each user and set a umask that gives the group
/// write permission, which is harmless. Root's group does not count as private, because containers
/// may run any user's processes in it.
bool is_private_group(gid_t group, uid_t owner) {
  if (group == 0 || owner == 0) return false;
  std::vector<char> memory(1 << 14), more(1 << 14);
  struct passwd user {};
  struct passwd* found_user = nullptr;
  struct group entry {};
  struct group* found = nullptr;
  if (::getpwuid_r(owner, &user, memory.data(), memory.size(), &found_user) != 0 ||
      found_user == nullptr)
    return false;
  if (::getgrgid_r(group, &entry, more.data(), more.size(), &found) != 0 || found == nullptr)
    return false;
  const std::string name = user.pw_name;
  if (name != entry.gr_name) return false;
  for (char** member = entry.gr_mem; *member != nullptr; ++member)
    if (name != *member) return false;
  return !is_primary_group_of_others(group, name);
}

/// True if an access control list may grant rights to other users; the group's mode bits are then
/// only an upper bound.
bool has_access_list(const fs::path& path) {
  return ::lgetxattr(path.c_str(), "system.posix_acl_access", nullptr, 0) > 0;
}

std::set<uid_t> find_trusted_users() {
  std::set<uid_t> out{0};
  Dl_info info{};
  std::error_code error;
  fs::path own;
  if (::dladdr(reinterpret_cast<void*>(&trust_problem), &info) != 0 && info.dli_fname != nullptr)
    own = fs::canonical(info.dli_fname, error);
  struct stat about {};
  // Include the root folder's owner even if the library is unknown: in a user namespace, the root
  // folder may belong to any user id.
  for (auto path = own.empty() ? fs::path("/") : own;; path = path.parent_path()) {
    if (::stat(path.c_str(), &about) == 0) out.insert(about.st_uid);
    if (path == path.parent_path()) return out;
  }
}

bool is_trusted_user(uid_t user) {
  static const auto* others = new std::set<uid_t>(find_trusted_users());
  return user == ::geteuid() || others->contains(user);
}

std::string foreign_owner(const fs::path& path, uid_t owner, const char* what) {
  return quoted_text(path.native()) + " belongs to user " + std::to_string(owner) +
         ", who could change what this " + "process runs; " + what +
         " of your own, or change its owner (chown)";
}

/// Returns the problem with one file or folder, or an empty string. `last` marks the last path
/// component, which is the file or folder to be used.
std::string component_problem(const fs::path& path, const struct stat& about, bool last) {
  const bool folder = S_ISDIR(about.st_mode);
  if (!is_trusted_user(about.st_uid))
    return foreign_owner(path, about.st_uid, folder ? "use a folder" : "use a file");
  if (!last && (about.st_mode & S_ISVTX) != 0) return {};
  const bool others = (about.st_mode & S_IWOTH) != 0;
  const bool group = (about.st_mode & S_IWGRP) != 0 &&
                     (has_access_list(path) || !is_private_group(about.st_gid, about.st_uid));
  if (!others && !group) return {};
  const auto who = others ? std::string("everyone") : "group " + std::to_string(about.st_gid);
  return quoted_text(path.native()) + " is writable by " + who +
         ", who could change what this process runs; use " +
         "another folder, or remove the permission (chmod " +
         (others && group ? "go"
          : others        ? "o"
                          : "g") +
         "-w)";
}

std::string walk(const fs::path& path, TrustedKind kind) {
  if (!path.is_absolute()) return quoted_text(path.native()) + " is not an absolute path";
  std::deque<fs::path> left;
  for (const auto& part : path.relative_path())
    if (!part.empty()) left.push_back(part);
  fs::path at = "/";
  struct stat about {};
  int links = 0;
  for (;;) {
    if (::lstat(at.c_str(), &about) != 0) {
      if (errno == ENOENT && kind == TrustedKind::future_folder) return {};
      return quoted_text(at.native()) + " cannot be used: " + std::strerror(errno);
    }
    if (S_ISLNK(about.st_mode)) {
      // The owner of a link controls its target.
      if (!is_trusted_user(about.st_uid)) return foreign_owner(at, about.st_uid, "use a link");
      std::error_code error;
      const auto target = fs::read_symlink(at, error);
      if (error || ++links > kMaxLinks)
        return quoted_text(at.native()) + " is a symbolic link that cannot be followed";
      auto place = left.begin();
      for (const auto& part : target.relative_path())
        if (!part.empty()) place = std::next(left.insert(place, part));
      at = target.is_absolute() ? fs::path("/") : at.parent_path();
      // A relative target starts in the folder of the link, which has already been checked, so do
      // not check that folder again. The target may have no components at all.
      if (target.is_absolute()) continue;
    } else {
      if (auto problem =
              component_problem(at, about, left.empty() && kind != TrustedKind::future_folder);
          !problem.empty())
        return problem;
      if (left.empty()) break;
    }
    while (!left.empty() && (left.front() == "." || left.front() == "..")) {
      if (left.front() == "..") at = at.parent_path();
      left.pop_front();
    }
    if (left.empty()) continue;
    at /= left.front();
    left.pop_front();
  }
  if (kind != TrustedKind::file && !S_ISDIR(about.st_mode))
    return quoted_text(at.native()) + " is not a folder";
  if (kind == TrustedKind::file && !S_ISREG(about.st_mode))
    return quoted_text(at.native()) + " is not a regular file";
  return {};
}

}  // namespace

std::string trust_problem(const fs::path& path, TrustedKind kind) noexcept try {
  return walk(path, kind);
} catch (const std::exception&) {
  return "out of memory";
}

std::optional<std::string> env_library(const char* variable) {
  auto value = env(variable);
  // If a name contains no slash, the loader searches the system's folders for it.
  if (!value || value->find('/') == std::string::npos) return value;
  std::error_code ignored;
  const auto path = fs::absolute(*value, ignored);
  // If the file is missing, the loader reports it.
  if (!fs::exists(path, ignored)) return value;
  if (const auto problem = trust_problem(path, TrustedKind::file); !problem.empty())
    throw Error(ErrorCode::unavailable, variable, {.what = problem});
  return value;
}

}  // namespace anyaccel
