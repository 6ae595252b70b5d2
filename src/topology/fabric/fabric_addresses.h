#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "src/base/status.h"
#include "src/topology/fabric/fabric.h"

namespace harmonaize {

/// Network from which addresses are taken that a fabric file leaves out.
inline constexpr char kDefaultNetwork[] = "10.96.0.0/12";

inline constexpr int kMostExplicitPaths = 16;

/// Returns ok if `network` reads "A.B.C.D/LENGTH", with no bits set beyond the length.
Status CheckNetwork(std::string_view network);

/// Returns the device of explicit path `path` of a NIC, such as "nic0.p1", unless the file names
/// one.
std::string PathDevice(std::string_view nic, size_t path);

/// Gives every NIC that has none an address and, where it states no paths, as many explicit paths
/// as the fabric has. The network is cut into equal blocks, one for the NICs' own addresses and one
/// for each path; within each, NIC n of the whole fabric, from 1, has the n-th address:
/// 10.96.0.5 and, for its paths, 10.96.1.5 and 10.96.2.5. kInvalidArgument when the network is too
/// small.
Status AssignAddresses(std::string_view network, Fabric* fabric);

}  // namespace harmonaize
