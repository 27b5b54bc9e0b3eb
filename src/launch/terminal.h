// Pseudo terminals for ranks: the output of ranks passes through the launcher, but they still see a
// terminal.
#pragma once

namespace anyaccel::launch {

/// Opens a pseudo terminal that forwards bytes unchanged: ends[0] is for reading, ends[1] is for a
/// rank. It is not a controlling terminal, so it does not send signals. Returns false if none is
/// available, for example in a container without /dev/pts.
bool open_terminal(int ends[2]) noexcept;

/// Copies the window size of the terminal `like` to the terminal `end`.
void copy_size(int like, int end) noexcept;

}  // namespace anyaccel::launch
