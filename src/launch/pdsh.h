// Reaches other hosts through pdsh, with one process per host. pdsh starts the ssh client, so
// pdsh's settings apply, but the client uses the launcher's pipes directly.
//
// This uses pdsh's `exec` module instead of its `ssh` module, so that input and output do not pass
// through pdsh. pdsh itself
// - does not forward standard input
// - drops the text after a NUL byte in a line
// - drops the beginning of lines longer than 128 KiB
// - reports a client killed by a signal as successful
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launch/options.h"

namespace anyaccel::launch {

/// Owner of the pipes that the ssh client uses.
enum class PdshPipes { launcher, pdsh };

/// Returns the pdsh command that runs `command`, a command line for the shell of `host`, on `host`.
/// `connection` contains ssh options that the user may override. PDSH_SSH_ARGS_APPEND and
/// PDSH_SSH_ARGS work as in pdsh's ssh module. Throws `invalid_argument` for a host name that pdsh
/// would treat as a pattern.
std::vector<std::string> pdsh_words(const Options& options,
                                    const std::vector<std::string>& connection,
                                    const std::string& host, std::string_view command,
                                    PdshPipes pipes);

/// Throws `not_found` if pdsh is not in PATH.
void check_pdsh();

}  // namespace anyaccel::launch
