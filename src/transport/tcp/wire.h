#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "src/base/status.h"

namespace harmonaize::transport {

/// Appends values to a buffer. Numbers are in the machine's byte order; greetings have compared it.
class WireWriter {
 public:
  template <typename T>
  void Put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof value);
  }
  /// Appends at most 65535 bytes; a longer text is cut.
  void PutText(std::string_view text);
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// Extracts the values again. Reading past the end gives zeros and makes good() false for good, so
/// one check at the end is enough.
class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> bytes) : rest_(bytes) {}
  template <typename T>
  T Get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    const std::span<const std::byte> bytes = Take(sizeof value);
    if (good_) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  std::string GetText();
  bool good() const { return good_; }
  /// Returns whether everything was read, and nothing past the end.
  bool AtEnd() const { return good_ && rest_.empty(); }

 private:
  std::span<const std::byte> Take(size_t bytes);

  std::span<const std::byte> rest_;
  bool good_ = true;
};

/// Types of frames on a control link, once the key is proved.
enum class FrameType : uint16_t {
  kHello = 1,      ///< Both sides: rails, token, and the silence after which a peer counts as dead.
  kAdmit,          ///< The arbiter of two daemons keeps this link.
  kRefuse,         ///< The arbiter refuses the link; the reason as text.
  kRailsReady,     ///< The initiator has connected the rails: RailReady of each.
  kRailsAccepted,  ///< The acceptor has found all of them.
  kHeartbeat,
  kMessage,  ///< The daemon's own message.
  kGoodbye,  ///< The link is ended on purpose; the reason as text.
  kStalled,  ///< From the acceptor: a stream carries nothing (StreamMoves); StalledStream.
};

inline constexpr size_t kFrameHeaderBytes = 8;
/// Most bytes of a control message. Plans and membership lists are some kilobytes.
inline constexpr size_t kMaxControlBytes = size_t{1} << 20;

/// Appends a frame to `out`. Requires: `payload` has at most kMaxControlBytes.
void AppendFrame(FrameType type, std::span<const std::byte> payload, std::vector<std::byte>* out);

struct Frame {
  FrameType type;
  std::span<const std::byte> payload;  ///< Valid until the reader is used again.
};

/// Cuts a stream of bytes into frames. Invalid frames are detected at their header, so it never
/// uses more memory than one frame needs.
class FrameReader {
 public:
  /// Appends bytes that arrived.
  void Append(std::span<const std::byte> bytes);
  /// Returns the next whole frame; none when more bytes are needed. Errors: kRemoteError for an
  /// unknown type or a length beyond the limit; all later calls fail too.
  Result<std::optional<Frame>> Next();

 private:
  std::vector<std::byte> bytes_;
  size_t start_ = 0;
};

/// A rail of a daemon, as described to its peers.
struct RailAnnouncement {
  enum class Kind : uint8_t { kTcp = 1, kUcx = 2 };
  Kind kind = Kind::kTcp;
  uint8_t prefix_bits = 0;  ///< kTcp: prefix length of the device's network.
  std::string address;      ///< kTcp: where connections are accepted, as text; kUcx: the worker's
                            ///< address.

  bool operator==(const RailAnnouncement&) const = default;
};

/// Most rails of a link.
inline constexpr size_t kMaxRails = 64;
/// Most connections of all rails of a link together.
inline constexpr size_t kMaxConnections = 64;

/// The first frame of each side.
struct Hello {
  uint64_t token = 0;          ///< Must be in each message that is sent to the sender of this frame
                               ///< over UCX.
  uint32_t dead_after_ms = 0;  ///< Silence after which the sender takes its peer for dead.
  bool movable = false;        ///< Whether the sender may take bytes back from the kernel.
  std::vector<RailAnnouncement> rails;

  bool operator==(const Hello&) const = default;
};

std::vector<std::byte> EncodeHello(const Hello& hello);
/// Errors: kRemoteError for anything that EncodeHello does not write.
Result<Hello> DecodeHello(std::span<const std::byte> bytes);

}  // namespace harmonaize::transport
