#pragma once

#include <string>

#include "src/base/status.h"

namespace harmonaize {

/// A fat tree of two or three levels (Leiserson, 1985; Al-Fares et al., 2008), for planning and
/// simulating what no laboratory holds. Hosts hang at leaves; the leaves of a pod are joined with
/// all its spines; spine s of every pod is joined with the cores of its plane. Hosts that fill no
/// more than one pod have no cores.
struct FatTree {
  int hosts = 16;
  int hosts_per_leaf = 16;
  int leaves_per_pod = 8;
  int spines_per_pod = 8;
  int cores_per_spine = 8;
  int nics = 1;  ///< Of each host, all at its leaf.
  std::string host_rate = "200Gbit";
  std::string uplink_rate = "400Gbit";  ///< Of leaves to spines, and of spines to cores.
  double latency_us = 1;                ///< Of each link.
};

/// The text of its fabric file. kInvalidArgument when a number is not positive, or a rate no rate.
Result<std::string> FatTreeFile(const FatTree& tree);

}  // namespace harmonaize
