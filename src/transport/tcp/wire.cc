#include "src/transport/tcp/wire.h"

#include <algorithm>

namespace harmonaize::transport {
namespace {

struct FrameHeader {
  uint32_t length;  ///< Bytes of the payload.
  uint16_t type;
  uint16_t zero;
};
static_assert(sizeof(FrameHeader) == kFrameHeaderBytes);

Status CheckHeader(const FrameHeader& header) {
  if (header.type < static_cast<uint16_t>(FrameType::kHello) ||
      header.type > static_cast<uint16_t>(FrameType::kStalled) || header.zero != 0) {
    return RemoteError("it sent a control frame of unknown type {}", header.type);
  }
  if (header.length > kMaxControlBytes) {
    return RemoteError("it sent a control frame of {} bytes; the limit is {}", header.length,
                       kMaxControlBytes);
  }
  return Status::Ok();
}

}  // namespace

void WireWriter::PutText(std::string_view text) {
  const auto length = static_cast<uint16_t>(std::min<size_t>(text.size(), UINT16_MAX));
  Put(length);
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  bytes_.insert(bytes_.end(), bytes, bytes + length);
}

std::span<const std::byte> WireReader::Take(size_t bytes) {
  if (!good_ || rest_.size() < bytes) {
    good_ = false;
    return {};
  }
  const std::span<const std::byte> taken = rest_.first(bytes);
  rest_ = rest_.subspan(bytes);
  return taken;
}

std::string WireReader::GetText() {
  const std::span<const std::byte> text = Take(Get<uint16_t>());
  return std::string(reinterpret_cast<const char*>(text.data()), text.size());
}

void AppendFrame(FrameType type, std::span<const std::byte> payload, std::vector<std::byte>* out) {
  const FrameHeader header{static_cast<uint32_t>(payload.size()), static_cast<uint16_t>(type), 0};
  const auto* bytes = reinterpret_cast<const std::byte*>(&header);
  out->insert(out->end(), bytes, bytes + sizeof header);
  out->insert(out->end(), payload.begin(), payload.end());
}

void FrameReader::Append(std::span<const std::byte> bytes) {
  // Bytes that were handed out are dropped here, so an idle link holds no memory of past messages.
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<ptrdiff_t>(start_));
  start_ = 0;
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

Result<std::optional<Frame>> FrameReader::Next() {
  const std::span<const std::byte> rest = std::span(bytes_).subspan(start_);
  if (rest.size() < kFrameHeaderBytes) return std::optional<Frame>();
  FrameHeader header;
  std::memcpy(&header, rest.data(), sizeof header);
  HZ_RETURN_IF_ERROR(CheckHeader(header));
  if (rest.size() - kFrameHeaderBytes < header.length) return std::optional<Frame>();
  start_ += kFrameHeaderBytes + header.length;
  return std::optional<Frame>(
      Frame{static_cast<FrameType>(header.type), rest.subspan(kFrameHeaderBytes, header.length)});
}

std::vector<std::byte> EncodeHello(const Hello& hello) {
  WireWriter out;
  out.Put(hello.token);
  out.Put(hello.dead_after_ms);
  out.Put(static_cast<uint8_t>(hello.movable));
  out.Put(static_cast<uint16_t>(hello.rails.size()));
  for (const RailAnnouncement& rail : hello.rails) {
    out.Put(rail.kind);
    out.Put(rail.prefix_bits);
    out.PutText(rail.address);
  }
  return {out.bytes().begin(), out.bytes().end()};
}

Result<Hello> DecodeHello(std::span<const std::byte> bytes) {
  WireReader in(bytes);
  Hello hello;
  hello.token = in.Get<uint64_t>();
  hello.dead_after_ms = in.Get<uint32_t>();
  hello.movable = in.Get<uint8_t>() != 0;
  const auto rails = in.Get<uint16_t>();
  if (rails > kMaxRails) return RemoteError("it has {} rails; the limit is {}", rails, kMaxRails);
  for (uint16_t i = 0; i < rails && in.good(); ++i) {
    RailAnnouncement rail;
    rail.kind = in.Get<RailAnnouncement::Kind>();
    rail.prefix_bits = in.Get<uint8_t>();
    rail.address = in.GetText();
    if (rail.kind != RailAnnouncement::Kind::kTcp && rail.kind != RailAnnouncement::Kind::kUcx) {
      return RemoteError("it announced a rail of unknown kind");
    }
    hello.rails.push_back(std::move(rail));
  }
  if (!in.AtEnd()) return RemoteError("its hello is malformed");
  return hello;
}

}  // namespace harmonaize::transport
