#pragma once

#include <set>
#include <string>

namespace harmonaize::testing {

/// Cuts ways between transports of this process: sockets of a loopback address get a filter that
/// drops everything that arrives. So neither bytes nor acknowledgements arrive, and neither side is
/// told.
class CutWays {
 public:
  ~CutWays() {
    while (!cut_.empty()) Mend(*cut_.begin());
  }
  /// Cuts an address such as "127.0.0.2". Connections that are accepted at it later are cut as
  /// well. With `from`, drops only what comes from that address.
  void Cut(const std::string& address, const std::string& from = "");
  void Mend(std::string address);
  const std::set<std::string>& cut() const { return cut_; }

 private:
  std::set<std::string> cut_;
};

}  // namespace harmonaize::testing
