// Other hosts through pdsh, one for each host: pdsh starts the ssh client that its own settings
// describe, and that client has the pipes of the launcher.
//
// pdsh itself gives what it starts no input, drops what stands behind a NUL byte of a line and the
// beginning of lines above 128 KiB, and takes a client that a signal ended for a success. So its
// module `exec` is used and not `ssh`: input and output do not pass through pdsh.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launch/options.h"

namespace anyaccel::launch {

/// Whose pipes the client has.
enum class PdshPipes { launcher, pdsh };

/// The command that runs `command`, a line for the host's shell, on a host. `connection` are ssh's
/// options that the user may say otherwise; PDSH_SSH_ARGS_APPEND and PDSH_SSH_ARGS hold as with
/// pdsh's own ssh module. Throws `invalid_argument` for a host's name that means more than a host
/// to pdsh.
std::vector<std::string> pdsh_words(const Options& options,
                                    const std::vector<std::string>& connection,
                                    const std::string& host, std::string_view command,
                                    PdshPipes pipes);

/// Throws `not_found` when there is no pdsh here.
void check_pdsh();

}  // namespace anyaccel::launch
