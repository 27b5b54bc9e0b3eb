// Terminals for the ranks of a launcher that writes to one: what they write passes through the launcher, and they still see a terminal.
#pragma once

namespace anyaccel::launch {

/// Opens a pseudo terminal that passes bytes on unchanged: ends[0] to read from, ends[1] for a rank. It is nobody's controlling terminal,
/// so it sends no signals. False when there is none (no /dev/pts in a container).
bool open_terminal(int ends[2]) noexcept;

/// Gives the terminal behind `end` the size of the terminal `like`.
void copy_size(int like, int end) noexcept;

}  // namespace anyaccel::launch
