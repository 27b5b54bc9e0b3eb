// Ranks of a job in tests, as threads or processes.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace anyaccel::test {

/// Runs `body(rank)` on `size` threads.
template <typename Body>
void in_threads(int size, const Body& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back([&body, rank] { body(rank); });
  for (auto& thread : threads) thread.join();
}

/// Returns a TCP port that is currently free.
inline int free_port() {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  EXPECT_EQ(::bind(descriptor, reinterpret_cast<sockaddr*>(&address), length), 0);
  EXPECT_EQ(::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length), 0);
  ::close(descriptor);
  return ntohs(address.sin_port);
}

/// The read end of a pipe. All ranks of in_processes() except rank 0 hold the write end open.
inline int other_ranks = -1;

/// Waits until the other ranks have exited. Rank 0 calls it within in_processes(), so that its
/// store outlives them.
inline void wait_for_other_ranks() {
  char byte = 0;
  EXPECT_EQ(::read(other_ranks, &byte, 1), 0);
}

/// Runs `body(rank)` in `size` processes with the variables that a launcher sets. Returns their
/// wait statuses, which are 0 if all expectations held. Call it before this process computes
/// anything, because torch's threads do not survive a fork.
template <typename Body>
std::vector<int> in_processes(int size, const Body& body) {
  const auto port = std::to_string(free_port());
  std::vector<pid_t> children;
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  for (int rank = 0; rank < size; ++rank) {
    const auto child = ::fork();
    if (child == 0) {
      other_ranks = ends[0];
      if (rank == 0) ::close(ends[1]);
      ::setenv("MASTER_ADDR", "127.0.0.1", 1);
      ::setenv("MASTER_PORT", port.c_str(), 1);
      ::setenv("WORLD_SIZE", std::to_string(size).c_str(), 1);
      for (const char* name : {"RANK", "LOCAL_RANK"})
        ::setenv(name, std::to_string(rank).c_str(), 1);
      try {
        body(rank);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
      ::_exit(testing::Test::HasFailure() ? 1 : 0);
    }
    children.push_back(child);
  }
  ::close(ends[0]);
  ::close(ends[1]);
  std::vector<int> out;
  for (const auto child : children) {
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    out.push_back(status);
  }
  return out;
}

}  // namespace anyaccel::test
