#pragma once

#include <string>

#include "src/base/status.h"

namespace harmonaize {

/// A fat tree of two or three levels (Leiserson, 1985; Al-Fares et al., 2008), for planning and
/// simulating networks that no laboratory can hold. Hosts are joined to leaves; the leaves of a pod
/// to all its spines; spine s of every pod to the cores of its plane. Hosts that fill no more than
/// one pod have no cores.
struct FatTree {
  int hosts = 16;
  int hosts_per_leaf = 16;
  int leaves_per_pod = 8;
  int spines_per_pod = 8;
  int cores_per_spine = 8;
  int nics = 1;  ///< NICs of each host, all at its leaf.
  std::string host_rate = "200Gbit";
  std::string uplink_rate = "400Gbit";  ///< Rate of links from leaves to spines, and from spines to
                                        ///< cores.
  double latency_us = 1;                ///< Latency of each link.
};

/// Returns the text of the tree's fabric file. Errors: kInvalidArgument when a number is not
/// positive, or a rate is invalid.
Result<std::string> FatTreeFile(const FatTree& tree);

}  // namespace harmonaize
