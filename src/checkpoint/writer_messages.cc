#include "src/checkpoint/writer_messages.h"

#include <fmt/format.h>

#include <exception>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "src/base/clean_text.h"
#include "src/base/json_text.h"
#include "src/checkpoint/json_fields.h"
#include "src/checkpoint/part_image.h"
#include "src/checkpoint/shard.h"

namespace harmonaize::checkpoint {
namespace {

using nlohmann::json;

constexpr uint64_t kMostStep = INT64_MAX;
/// Largest size that is spoken of: as that of an image, so that sums do not overflow.
constexpr uint64_t kMostBytes = uint64_t{1} << 61;

// ---------------------------------------------------------------------------------------------
// Texts

json BodyOf(const OpenStore& open) {
  return {{"version", open.version},
          {"folder", open.folder},
          {"job", open.job},
          {"rank", open.rank},
          {"ranks", open.ranks},
          {"format", NameOf(open.format)},
          {"keep", open.keep},
          {"most_bytes_per_second", open.most_bytes_per_second},
          {"linger_seconds", open.linger_seconds}};
}

json BodyOf(const LendBuffer& lend) {
  return {{"index", lend.index}, {"bytes", lend.bytes}};
}

json BodyOf(const SaveImage& save) {
  return {{"buffer", save.buffer},
          {"step", save.step},
          {"save", save.save},
          {"bytes", save.bytes},
          {"kept", save.is_kept}};
}

json BodyOf(const StoreOpened& opened) {
  return {{"version", opened.version}};
}

json BodyOf(const PartWritten& written) {
  return {{"step", written.step},
          {"save", written.save},
          {"bytes", written.bytes},
          {"new_bytes", written.new_bytes},
          {"seconds", written.seconds}};
}

json BodyOf(const CheckpointCommitted& committed) {
  return {{"step", committed.step}, {"save", committed.save}};
}

json BodyOf(const SaveFailed& failed) {
  return {{"step", failed.step},
          {"save", failed.save},
          {"code", static_cast<int>(failed.code)},
          {"message", CleanText(failed.message, kMostFailureBytes)}};
}

const char* KindOf(const OpenStore&) {
  return "open";
}
const char* KindOf(const LendBuffer&) {
  return "buffer";
}
const char* KindOf(const SaveImage&) {
  return "save";
}
const char* KindOf(const StoreOpened&) {
  return "opened";
}
const char* KindOf(const PartWritten&) {
  return "written";
}
const char* KindOf(const CheckpointCommitted&) {
  return "committed";
}
const char* KindOf(const SaveFailed&) {
  return "failed";
}

// ---------------------------------------------------------------------------------------------
// Values

void Read(JsonFields* fields, OpenStore* open) {
  open->version = static_cast<uint32_t>(fields->Count("version", 1, UINT32_MAX));
  open->folder = fields->Text("folder", kMostFolderBytes);
  open->job = fields->Text("job", kMostNameBytes);
  open->ranks = static_cast<int32_t>(fields->Count("ranks", 1, kMostStoredRanks));
  open->rank =
      static_cast<int32_t>(fields->Count("rank", 0, static_cast<uint64_t>(open->ranks) - 1));
  open->keep = static_cast<uint32_t>(fields->Count("keep", 0, kMostKept));
  open->most_bytes_per_second = fields->Count("most_bytes_per_second", 0, kMostBytes);
  open->linger_seconds =
      static_cast<uint32_t>(fields->Count("linger_seconds", 0, kMostLingerSeconds));
}

void Read(JsonFields* fields, LendBuffer* lend) {
  lend->index = static_cast<uint32_t>(fields->Count("index", 0, kMostLentBuffers - 1));
  lend->bytes = fields->Count("bytes", kPartHeaderBytes, kMostBytes);
}

void Read(JsonFields* fields, SaveImage* save) {
  save->buffer = static_cast<uint32_t>(fields->Count("buffer", 0, kMostLentBuffers - 1));
  save->step = fields->Count("step", 0, kMostStep);
  save->save = fields->Count("save", 0, UINT64_MAX);
  save->bytes = fields->Count("bytes", kPartHeaderBytes, kMostBytes);
  save->is_kept = fields->Flag("kept");
}

void Read(JsonFields* fields, StoreOpened* opened) {
  opened->version = static_cast<uint32_t>(fields->Count("version", 1, UINT32_MAX));
}

void Read(JsonFields* fields, PartWritten* written) {
  written->step = fields->Count("step", 0, kMostStep);
  written->save = fields->Count("save", 0, UINT64_MAX);
  written->bytes = fields->Count("bytes", 0, kMostBytes);
  written->new_bytes = fields->Count("new_bytes", 0, kMostBytes);
  written->seconds = fields->Amount("seconds");
}

void Read(JsonFields* fields, CheckpointCommitted* committed) {
  committed->step = fields->Count("step", 0, kMostStep);
  committed->save = fields->Count("save", 0, UINT64_MAX);
}

void Read(JsonFields* fields, SaveFailed* failed) {
  failed->step = fields->Count("step", 0, kMostStep);
  failed->save = fields->Count("save", 0, UINT64_MAX);
  failed->code =
      static_cast<Code>(fields->Count("code", 1, static_cast<uint64_t>(Code::kUnavailable)));
  failed->message = CleanText(fields->Text("message", kMostFailureBytes), kMostFailureBytes);
}

/// Checks what no single field shows.
Status Complete(const json& body, OpenStore* open) {
  if (!open->folder.starts_with('/')) {
    return InvalidArgument("the store's folder is not an absolute path");
  }
  if (!open->job.empty()) HZ_RETURN_IF_ERROR(CheckName(open->job));
  JsonFields fields(body, "the message 'open'");
  const std::optional<StoreFormat> format = StoreFormatOf(fields.Text("format", 32));
  HZ_RETURN_IF_ERROR(fields.status());
  if (!format.has_value()) return InvalidArgument("no format of stores has that name");
  open->format = *format;
  return Status::Ok();
}

template <typename Value>
Status Complete(const json&, Value*) {
  return Status::Ok();
}

/// Reads the alternative of Message with index I, or those behind it.
template <typename Message, size_t I = 0>
Result<Message> DecodeAs(const json& document) {
  if constexpr (I == std::variant_size_v<Message>) {
    return InvalidArgument("the message is of no kind that this release knows");
  } else {
    std::variant_alternative_t<I, Message> value;
    const auto found = document.find(KindOf(value));
    if (found == document.end()) return DecodeAs<Message, I + 1>(document);
    JsonFields fields(*found, fmt::format("the message '{}'", KindOf(value)));
    Read(&fields, &value);
    HZ_RETURN_IF_ERROR(fields.status());
    HZ_RETURN_IF_ERROR(Complete(*found, &value));
    return Message(std::move(value));
  }
}

template <typename Message>
Result<Message> Decode(std::string_view text) {
  if (text.size() > kMostWriterMessageBytes) return InvalidArgument("the message is too long");
  try {
    HZ_ASSIGN_OR_RETURN(const json document, ParseObject(text, "the message"));
    return DecodeAs<Message>(document);
  } catch (const std::exception& error) {
    return InternalError("cannot read a message: {}", error.what());
  }
}

/// Encodes, and holds the decoder's rules for what is sent, too.
template <typename Message>
Result<std::string> EncodeChecked(const Message& message) {
  try {
    json document = json::object();
    std::visit([&](const auto& value) { document[KindOf(value)] = BodyOf(value); }, message);
    std::string text = JsonText(document);
    HZ_RETURN_IF_ERROR(Decode<Message>(text).status());
    return text;
  } catch (const std::exception& error) {
    return InternalError("cannot write a message: {}", error.what());
  }
}

}  // namespace

Result<std::string> Encode(const ToWriter& message) {
  return EncodeChecked(message);
}

Result<std::string> Encode(const FromWriter& message) {
  return EncodeChecked(message);
}

Result<ToWriter> DecodeToWriter(std::string_view text) {
  return Decode<ToWriter>(text);
}

Result<FromWriter> DecodeFromWriter(std::string_view text) {
  return Decode<FromWriter>(text);
}

}  // namespace harmonaize::checkpoint
