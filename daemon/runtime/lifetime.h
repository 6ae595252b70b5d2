#pragma once

#include <memory>
#include <utility>

namespace harmonaize::daemon {

/// A member that ends with its object: calls that it has guarded do nothing afterwards.
///
///     loop->Post(lifetime_.Guard([this] { ... }));
///
/// Guarded calls must be made, and must run, on the thread that destroys the object. Any thread may
/// hand them around and destroy them.
class Lifetime {
 public:
  Lifetime() = default;
  Lifetime(const Lifetime&) = delete;
  Lifetime& operator=(const Lifetime&) = delete;

  /// Returns `call`, wrapped so that it does nothing once the object is gone.
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
