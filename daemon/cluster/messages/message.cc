#include "daemon/cluster/messages/message.h"

#include <algorithm>
#include <array>
#include <optional>

#include <nlohmann/json.hpp>

#include "daemon/cluster/messages/codec.h"
#include "daemon/cluster/messages/fields.h"
#include "src/base/clean_text.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

/// The most levels of lists and structures in a message: more than any message has. The reader
/// calls itself for each level.
constexpr int kMostLevels = 8;
/// The longest text for people, in bytes: the size of a control message is limited.
constexpr size_t kMostText = 4096;
/// The longest name of a host, a device, a communicator or anything else that a daemon names, in
/// bytes. Tenants' names have 63 at most, DNS names 253.
constexpr size_t kMostName = 255;

/// Looks through a document without keeping it, and stops if it is too deep.
class LevelCounter final : public nlohmann::json_sax<json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool key(string_t&) override { return true; }
  bool start_object(size_t) override { return ++levels_ <= kMostLevels; }
  bool start_array(size_t) override { return ++levels_ <= kMostLevels; }
  bool end_object() override { return --levels_ >= 0; }
  bool end_array() override { return --levels_ >= 0; }
  bool parse_error(size_t, const std::string&, const json::exception&) override { return false; }

 private:
  int levels_ = 0;
};

/// Cuts a text for people if it is longer than they read: a tenant may see to it that thousands of
/// ranks have something to say.
void CutText(json* fields, const char* name) {
  const auto found = fields->find(name);
  if (found == fields->end()) return;
  auto& text = found->get_ref<std::string&>();
  if (text.size() > kMostText) text = CleanText(text, kMostText - 3) + "...";
}

/// Cleans all texts of another daemon, since they go into logs, documents and tenants' errors.
void CleanTexts(json* value, size_t most_bytes) {
  if (value->is_string()) {
    auto& text = value->get_ref<std::string&>();
    text = CleanText(text, most_bytes);
  } else if (value->is_array()) {
    for (json& one : *value) CleanTexts(&one, most_bytes);
  } else if (value->is_object()) {
    for (auto& [key, one] : value->items()) {
      CleanTexts(&one, key == "why" || key == "notice" ? kMostText : kMostName);
    }
  }
}

constexpr std::array kSubjects = {
    &kFormationCodec, &kOutcomeCodec,    &kPlanningCodec,  &kPairCodec,   &kLinkCodec,
    &kProbeCodec,     &kJobCodec,        &kDiagnosisCodec, &kTicketCodec, &kAgentsCodec,
    &kSizingCodec,    &kCheckpointCodec, &kDoorCodec,      &kTuningCodec};

/// Reads a message of the subject that has its kind; nullopt if none has.
std::optional<Result<ClusterMessage>> ReadSubject(uint64_t kind, const json& document) {
  for (const SubjectCodec* const subject : kSubjects) {
    std::optional<Result<ClusterMessage>> read = subject->read(kind, document);
    if (read.has_value()) return read;
  }
  return std::nullopt;
}

}  // namespace

namespace fields {

Json Write(const Status& status) {
  Json document = {{"code", static_cast<int>(status.code())}, {"why", status.message()}};
  CutText(&document, "why");
  return document;
}

// A code that this daemon does not know yet counts as a failure of the other daemon.
bool Reader::Read(const Json& value, Status* out) {
  if (!value.is_object()) return false;
  int code = 0;
  std::string why;
  Reader reader(value);
  reader("code", code);
  reader("why", why);
  if (!reader.problem().empty()) return false;
  const bool known = code >= 0 && code <= static_cast<int>(Code::kUnavailable);
  *out = Status(known ? static_cast<Code>(code) : Code::kRemoteError, std::move(why));
  return true;
}

}  // namespace fields

std::vector<std::byte> EncodeMessage(const ClusterMessage& message) {
  json fields;
  std::any_of(kSubjects.begin(), kSubjects.end(),
              [&](const SubjectCodec* subject) { return subject->write(message, &fields); });
  CutText(&fields, "notice");
  CutText(&fields, "why");
  const json document = json::array({static_cast<int>(message.kind()), std::move(fields)});
  const std::vector<uint8_t> bytes = json::to_cbor(document);
  const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
  return {data, data + bytes.size()};
}

Result<ClusterMessage> DecodeMessage(std::span<const std::byte> bytes) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  LevelCounter levels;
  if (!json::sax_parse(data, data + bytes.size(), &levels, json::input_format_t::cbor)) {
    return RemoteError("malformed cluster message: it cannot be read");
  }
  json document =
      json::from_cbor(data, data + bytes.size(), /*strict=*/true, /*allow_exceptions=*/false);
  uint64_t kind = 0;
  if (!document.is_array() || document.size() != 2 || !fields::Reader::Read(document[0], &kind)) {
    return RemoteError("malformed cluster message: it is no kind with its fields");
  }
  // A fabric comes as a file of many lines, and an event's data as JSON. Their readers check the
  // texts in them.
  const bool cleans_itself = kind == static_cast<uint64_t>(MessageKind::kFabric) ||
                             kind == static_cast<uint64_t>(MessageKind::kEvent);
  if (!cleans_itself) CleanTexts(&document[1], kMostName);
  const std::optional<Result<ClusterMessage>> read = ReadSubject(kind, document[1]);
  if (!read.has_value()) return InvalidUsage("unknown kind {}", kind);
  if (read->ok()) return *read;
  return RemoteError("malformed cluster message: kind {}, {}", kind, read->status().message());
}

std::optional<uint64_t> CommunicatorOf(const ClusterMessage& message) {
  for (const SubjectCodec* const subject : kSubjects) {
    if (const auto key = subject->communicator(message)) return key;
  }
  return std::nullopt;
}

}  // namespace harmonaize::daemon
