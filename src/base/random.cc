#include "src/base/random.h"

#include <errno.h>
#include <sys/random.h>

#include "src/base/clock.h"

namespace harmonaize {

Status FillRandom(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = getrandom(out.data(), out.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoError(errno, "cannot draw random bytes");
    out = out.subspan(static_cast<size_t>(got));
  }
  return Status::Ok();
}

uint64_t RandomNumber() {
  uint64_t number = 0;
  const Status drawn = FillRandom(std::as_writable_bytes(std::span(&number, 1)));
  if (!drawn.ok()) number = MonotonicNanoseconds();
  return number == 0 ? 1 : number;
}

}  // namespace harmonaize
