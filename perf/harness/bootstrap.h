#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "perf/harness/launch.h"
#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize::perf {

/// The processes of one benchmark, connected over TCP in a star around process 0. It exchanges a
/// few bytes now and then (the unique id, times, counts of errors), never inside a timed section.
///
/// Thread: one. Every process must make the same calls in the same order. A process that dies, or
/// that lets the others wait longer than the timeout, is an error with its number in it.
class Bootstrap {
 public:
  struct Timeouts {
    std::chrono::seconds connect{60};    ///< Limit for all processes to appear.
    std::chrono::seconds exchange{600};  ///< Limit for the slowest process to reach the same call.
  };

  /// Process 0 listens on launch.address:launch.port, the others connect to it. With one process
  /// nothing is opened.
  static Result<std::unique_ptr<Bootstrap>> Connect(const Launch& launch, Timeouts timeouts);

  int process() const { return launch_.process; }
  int processes() const { return launch_.processes; }

  /// Sends `mine` (at most 1 MiB) of every process to all, by process number.
  Result<std::vector<std::string>> AllGather(std::string_view mine);

  /// Returns when all processes have called it.
  Status Barrier();

 private:
  Bootstrap(const Launch& launch, Timeouts timeouts) : launch_(launch), timeouts_(timeouts) {}
  Status Listen();
  Status Accept(const FileDescriptor& listener);
  Status ConnectToRoot();
  /// Tells process 0 this process's number, on a fresh connection, and waits for its answer.
  Status Greet(int root, std::chrono::steady_clock::time_point deadline) const;
  Status Send(int process, std::string_view message);
  Result<std::string> Receive(int process);

  Launch launch_;
  Timeouts timeouts_;
  std::vector<FileDescriptor> sockets_;  // process 0: one for each process; others: only [0]
};

}  // namespace harmonaize::perf
