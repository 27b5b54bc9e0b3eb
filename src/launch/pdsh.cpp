#include "launch/pdsh.h"

#include <algorithm>

#include "anyaccel/error.h"
#include "base/env.h"
#include "base/program.h"
#include "launch/ssh.h"

namespace anyaccel::launch {

namespace {

constexpr const char* kTimeout = "PDSH_CONNECT_TIMEOUT";

/// Escapes % as %%, because pdsh replaces %h, %u and %n.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) out.append(c == '%' ? "%%" : std::string(1, c));
  return out;
}

/// Splits the text at spaces, ignoring quotes, as pdsh does.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; (begin = text.find_first_not_of(' ', begin)) != std::string::npos;) {
    const auto end = std::min(text.find(' ', begin), text.size());
    out.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return out;
}

void append(std::vector<std::string>& to, const std::vector<std::string>& words) {
  to.insert(to.end(), words.begin(), words.end());
}

bool any_has(const std::vector<std::string>& words, std::string_view part) {
  return std::any_of(words.begin(), words.end(),
                     [&](const auto& word) { return word.find(part) != std::string::npos; });
}

}  // namespace

std::vector<std::string> pdsh_words(const Options& options,
                                    const std::vector<std::string>& connection,
                                    const std::string& host, std::string_view command,
                                    PdshPipes pipes) {
  if (host.find_first_of("[](),^/*?%") != std::string::npos)
    throw Error(ErrorCode::invalid_argument, "launch",
                {.what = "pdsh would treat this host name as a pattern",
                 .got = "'" + host + "'",
                 .want = "a name without pattern characters"});
  const auto own = split_words(options.runner_arguments);
  const bool user =
      std::any_of(own.begin(), own.end(), [](const auto& word) { return word.starts_with("-l"); });
  std::vector<std::string> out;
  // pdsh's `exec` module rejects a connect timeout, so ssh gets it instead.
  if (env(kTimeout)) out = {"env", "-u", kTimeout};
  append(out, {"pdsh", "-N", "-S", "-R", "exec", "-w", host});
  append(out, own);
  // $PPID is pdsh. The shell must not exec the client: if a signal killed the client, pdsh would
  // report 0, whereas the shell reports 128 + N.
  const std::string redirect = pipes == PdshPipes::launcher
                                   ? " </proc/$PPID/fd/0 >/proc/$PPID/fd/1 2>/proc/$PPID/fd/2"
                                   : " </dev/null";
  append(out, {"sh", "-c", R"("$0" "$@")" + redirect + "; exit $?"});
  append(out, {"ssh", "-T", "-o", "BatchMode=yes", "-o", "PasswordAuthentication=no"});
  if (options.ssh_port) append(out, {"-p", std::to_string(*options.ssh_port)});
  auto ssh = words_of(env("PDSH_SSH_ARGS_APPEND").value_or(""));
  if (const auto seconds = env(kTimeout)) append(ssh, {"-o", "ConnectTimeout=" + *seconds});
  append(ssh, connection);
  append(ssh, words_of(env("PDSH_SSH_ARGS").value_or("-a -x")));
  if (user && !any_has(ssh, "%u"))
    ssh.insert(std::find_if(ssh.begin(), ssh.end(),
                            [](const auto& word) { return word.starts_with("%h"); }),
               "-l%u");
  if (!any_has(ssh, "%h")) ssh.emplace_back("%h");
  append(out, ssh);
  out.push_back(escaped(command));
  return out;
}

void check_pdsh() {
  if (find_program("pdsh")) return;
  throw Error(ErrorCode::not_found, "launch",
              {.what = "--launcher pdsh requires the program pdsh, which is not in PATH",
               .hint = "install it (Debian: apt-get install pdsh), or use --launcher ssh"});
}

}  // namespace anyaccel::launch
