#include "daemon/ras/ras_caller.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <utility>

#include "src/base/kernel_files.h"

namespace harmonaize::daemon {
namespace {

using transport::NetworkAddress;

/// Returns the user that stands for all whose numbers a user namespace lacks.
uid_t UnmappedUser() {
  const std::string text = FirstLine("/proc/sys/kernel/overflowuid");
  uid_t user = 65534;
  std::from_chars(text.data(), text.data() + text.size(), user);
  return user;
}

}  // namespace

// Containers that are not recognized by an id, such as those of LXC or systemd-nspawn, have groups
// at the top, or in machine.slice.
bool IsHostGroup(const std::string& path) {
  const std::string top = path.substr(0, path.find('/', 1));
  const bool is_known =
      top == "/" || top == "/init.scope" || top == "/system.slice" || top == "/user.slice";
  // ContainerOf trusts no name below user.slice, where users make groups of their own. Here such a
  // name makes nobody more than it is.
  const std::string below = top == "/user.slice" ? path.substr(top.size()) : path;
  return is_known && ContainerOf(below).empty();
}

RasCallers::RasCallers(const TenantsConfig& config, LoopbackPeers peers)
    : containers_are_tenants_(config.identity == "cgroup"),
      nobody_(UnmappedUser()),
      peers_(std::move(peers)) {}

Result<RasCallers> RasCallers::Open(const TenantsConfig& config) {
  HZ_ASSIGN_OR_RETURN(LoopbackPeers peers, LoopbackPeers::Open());
  return RasCallers(config, std::move(peers));
}

Result<HttpCaller> RasCallers::Identify(const NetworkAddress& peer, const NetworkAddress& own) {
  const std::optional<LoopbackPeer> found = peers_.Find(peer, own);
  if (!found.has_value() || found->user == nobody_) {
    return Unavailable("the kernel does not say whose connection this is");
  }
  const bool privileged = found->user == 0 || found->user == geteuid();
  // Only these two need it, and the look takes some milliseconds.
  std::optional<std::string> group;
  if ((privileged || containers_are_tenants_) && found->control_group.has_value()) {
    group = groups_.PathOf(*found->control_group);
  }
  const bool is_outside = group.has_value() && ContainerOf(*group).empty();
  if (containers_are_tenants_ && !is_outside) {
    return Unavailable(
        "containers are tenants of their own here, and this is a container's connection, or may be "
        "one: use `harmonaize status` there");
  }
  const bool is_operator = privileged && group.has_value() && IsHostGroup(*group);
  const uid_t user = subordinate_ids_.OwnerOf(found->user);
  HttpCaller caller{.tenant = {user, user, user, fmt::format("uid {}", user)},
                    .scope = is_operator ? HttpScope::kOperator : HttpScope::kTenant,
                    .name = {}};
  caller.name = caller.tenant.name;
  return caller;
}

}  // namespace harmonaize::daemon
