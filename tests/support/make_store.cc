// Saves what a description says to a store of checkpoints, as ranks and their writers would, for
// tests in Python: make_store FOLDER FORMAT STEP DESCRIPTION. The description is a JSON array of
// shards {rank, name, type, object, whole, offset, shape, file}; `file` has their bytes.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "src/base/json_text.h"
#include "src/base/small_file.h"
#include "src/checkpoint/part_image.h"
#include "src/store/commit.h"
#include "src/store/part_writer.h"
#include "src/store/store.h"
#include "tests/support/stored_model.h"

namespace harmonaize::testing {
namespace {

/// Most bytes of a description, and of the bytes of a shard.
constexpr size_t kMostFileBytes = 64 << 20;

/// A rank's shards, and their bytes.
struct Part {
  std::vector<checkpoint::Shard> shards = {};
  std::vector<std::string> bytes = {};
};

Result<std::vector<Part>> PartsIn(const std::string& path) {
  HZ_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path, kMostFileBytes));
  std::vector<Part> parts;
  for (const nlohmann::json& one : ReadJson(text)) {
    const auto rank = one.at("rank").get<size_t>();
    if (parts.size() <= rank) parts.resize(rank + 1);
    HZ_ASSIGN_OR_RETURN(const std::string bytes,
                        ReadSmallFile(one.at("file").get<std::string>(), kMostFileBytes));
    const auto type = checkpoint::ElementTypeOf(one.at("type").get<std::string>());
    if (!type.has_value()) return InvalidArgument("there is no such type");
    parts[rank].shards.push_back({.name = one.at("name").get<std::string>(),
                                  .type = *type,
                                  .is_object = one.at("object").get<bool>(),
                                  .global_shape = one.at("whole").get<std::vector<int64_t>>(),
                                  .box = {.offset = one.at("offset").get<std::vector<int64_t>>(),
                                          .shape = one.at("shape").get<std::vector<int64_t>>()}});
    parts[rank].bytes.push_back(bytes);
  }
  return parts;
}

Status SavePart(const store::Store& store, const checkpoint::OpenStore& options, uint64_t step,
                const Part& part) {
  HZ_ASSIGN_OR_RETURN(const checkpoint::PartLayout layout, checkpoint::PartLayout::Of(part.shards));
  std::vector<std::byte> image(layout.bytes);
  layout.Write({.step = step, .save = step, .rank = options.rank, .ranks = options.ranks},
               image.data());
  for (size_t i = 0; i < layout.shards.size(); ++i) {
    if (part.bytes[i].size() != BytesOf(part.shards[i])) {
      return InvalidArgument("'{}' has {} bytes", part.shards[i].name, part.bytes[i].size());
    }
    if (part.bytes[i].empty()) continue;
    std::memcpy(image.data() + layout.shards[i].at, part.bytes[i].data(), part.bytes[i].size());
  }
  HZ_ASSIGN_OR_RETURN(store::OpenCheckpoint checkpoint,
                      store::OpenCheckpoint::Join(store, {step, step}));
  store::PartWriter writer(&store, options, [] { return Status::Ok(); });
  HZ_RETURN_IF_ERROR(
      writer.Write({.step = step, .save = step, .bytes = image.size()}, ReaderOf(image), checkpoint)
          .status());
  return store::Commit(&store, std::move(checkpoint), options.rank, options.ranks).Look().status();
}

Status Make(char** arguments) {
  const auto format = checkpoint::StoreFormatOf(arguments[2]);
  if (!format.has_value()) return InvalidArgument("there is no format '{}'", arguments[2]);
  HZ_ASSIGN_OR_RETURN(const std::vector<Part> parts, PartsIn(arguments[4]));
  HZ_ASSIGN_OR_RETURN(const store::Store store, store::Store::Open(arguments[1]));
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    const checkpoint::OpenStore options = {.folder = arguments[1],
                                           .rank = static_cast<int32_t>(rank),
                                           .ranks = static_cast<int32_t>(parts.size()),
                                           .format = *format};
    HZ_RETURN_IF_ERROR(
        SavePart(store, options, std::strtoull(arguments[3], nullptr, 10), parts[rank]));
  }
  return Status::Ok();
}

}  // namespace
}  // namespace harmonaize::testing

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fputs("usage: make_store FOLDER FORMAT STEP DESCRIPTION\n", stderr);
    return 2;
  }
  const harmonaize::Status status = harmonaize::testing::Make(argv);
  if (status.ok()) return 0;
  std::fprintf(stderr, "make_store: %s\n", status.message().c_str());
  return 1;
}
