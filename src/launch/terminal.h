// Pseudo terminals for ranks: their output passes through the launcher, but they still see a
// terminal.
#pragma once

namespace anyaccel::launch {

/// Opens a pseudo terminal that forwards bytes unchanged: ends[0] to read from, ends[1] for a rank.
/// It is not a controlling terminal, so it sends no signals. Returns false if none is available (no
/// /dev/pts in a container).
bool open_terminal(int ends[2]) noexcept;

/// Copies the window size of the terminal `like` to the terminal `end`.
void copy_size(int like, int end) noexcept;

}  // namespace anyaccel::launch
