#pragma once

#include <memory>
#include <utility>

namespace harmonaize::daemon {

/// Ends with the object that has it as a member: calls that it has guarded do nothing afterwards.
///
///     loop->Post(lifetime_.Guard([this] { ... }));
///
/// Guarded calls run on the thread that destroys the object. They may be made on it only, and be
/// handed around and destroyed by any thread.
class Lifetime {
 public:
  Lifetime() = default;
  Lifetime(const Lifetime&) = delete;
  Lifetime& operator=(const Lifetime&) = delete;

  /// `call`, which does nothing once the object is gone.
  template <typename Call>
  auto Guard(Call call) const {
    return
        [alive = std::weak_ptr<const char>(alive_), call = std::move(call)](auto&&... arguments) {
          if (!alive.expired()) call(std::forward<decltype(arguments)>(arguments)...);
        };
  }

 private:
  const std::shared_ptr<const char> alive_ = std::make_shared<const char>();
};

}  // namespace harmonaize::daemon
