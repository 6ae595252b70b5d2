#include "daemon/tenant.h"

#include <fmt/format.h>
#include <pwd.h>

#include <vector>

namespace harmonaize::daemon {

Status Charge(const Tenant& tenant, const char* what, int64_t* held, int64_t amount,
              int64_t limit) {
  if (amount > limit - *held) {
    return InvalidUsage(
        "user {} already holds {} {} on this host, and {} more would exceed the provider's quota "
        "of {}",
        tenant.name, *held, what, amount, limit);
  }
  *held += amount;
  return Status::Ok();
}

std::string UserName(uid_t user) {
  std::vector<char> buffer(4096);
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(user, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) {
    return found->pw_name;
  }
  return fmt::format("{}", user);
}

}  // namespace harmonaize::daemon
