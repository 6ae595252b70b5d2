#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/base/status.h"

namespace boost::asio {
class io_context;
}  // namespace boost::asio

namespace harmonaize::daemon {

/// Looks up host names, one at a time, on threads that nobody has to wait for: the C library's
/// lookup may take a minute and cannot be interrupted. A lookup that was given up ends by itself
/// and touches nothing of this object. Thread: the one that runs the io_context.
class NameLookup {
 public:
  explicit NameLookup(boost::asio::io_context& io) : io_(io) {}
  ~NameLookup() { GiveUp(); }
  NameLookup(const NameLookup&) = delete;
  NameLookup& operator=(const NameLookup&) = delete;

  /// Takes IP addresses, at most kMostAddresses of them.
  using Done = std::function<void(Result<std::vector<std::string>>)>;
  /// Looks `host` up and calls `done` from the io_context. Errors: kUnavailable while an earlier
  /// lookup that was given up has not ended; kSystemError.
  Status Start(const std::string& host, Done done);
  /// Forgets the lookup under way; its `done` is not called any more.
  void GiveUp() noexcept;

  /// More addresses of one server than can be tried before a request's deadline.
  static constexpr size_t kMostAddresses = 8;

 private:
  struct Shared;

  boost::asio::io_context& io_;
  std::shared_ptr<Shared> shared_;  // of the last lookup
};

}  // namespace harmonaize::daemon
