#include "src/store/object_layout.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "src/base/json_text.h"
#include "src/checkpoint/json_fields.h"
#include "src/store/torch_file.h"

namespace harmonaize::store {
namespace {

using checkpoint::BytesOf;
using checkpoint::NameOf;
using checkpoint::Shard;
using checkpoint::StoreFormat;

/// Returns a number as eight bytes, the lowest first.
std::string EightBytes(uint64_t number) {
  std::string text;
  for (int i = 0; i < 8; ++i) text += static_cast<char>(number >> (8 * i));
  return text;
}

}  // namespace

void ObjectLayout::AddOwn(std::string own) {
  if (own.empty()) return;
  bytes += own.size();
  if (!pieces.empty() && pieces.back().shard == Piece::kOwn) {
    pieces.back().own += own;
    pieces.back().bytes += own.size();
    return;
  }
  const uint64_t own_bytes = own.size();
  pieces.push_back({.own = std::move(own), .bytes = own_bytes});
}

void ObjectLayout::AlignTo(uint64_t multiple) {
  AddOwn(std::string((multiple - bytes % multiple) % multiple, '\0'));
}

void ObjectLayout::AddShard(uint64_t data_bytes) {
  pieces.push_back({.shard = shards.size(), .bytes = data_bytes});
  shards.push_back({.at = bytes});
  bytes += data_bytes;
}

// Source: the format's description at github.com/huggingface/safetensors. Data has no holes, so
// only the first shard's begins at a multiple, and others' that follow whole multiples.
ObjectLayout SafetensorsLayout(std::span<const ShardToLay> shards) {
  nlohmann::ordered_json header;
  // Readers of Hugging Face ask for it.
  header["__metadata__"] = {{"format", "pt"}};
  uint64_t data = 0;
  for (const ShardToLay& one : shards) {
    const uint64_t end = data + BytesOf(*one.shard);
    header[one.shard->name] = {{"dtype", NameOf(one.shard->type)},
                               {"shape", one.shard->box.shape},
                               {"data_offsets", {data, end}}};
    data = end;
  }
  std::string text = JsonText(header);
  text.resize((text.size() + 8 + kDataAlignment - 1) / kDataAlignment * kDataAlignment - 8, ' ');
  ObjectLayout layout = {.extension = ".safetensors"};
  layout.AddOwn(EightBytes(text.size()) + text);
  for (const ShardToLay& one : shards) layout.AddShard(BytesOf(*one.shard));
  return layout;
}

ObjectLayout DcpLayout(std::span<const ShardToLay> shards) {
  ObjectLayout layout = {.extension = ".distcp"};
  for (const ShardToLay& one : shards) {
    layout.AlignTo(kDataAlignment);
    if (one.shard->is_object) {
      layout.AddShard(BytesOf(*one.shard));
    } else {
      AddTorchFile(TensorPickle(*one.shard), one, &layout);
    }
  }
  return layout;
}

ObjectLayout UcpLayout(const ShardToLay& shard) {
  ObjectLayout layout = {.extension = ".pt"};
  if (shard.shard->is_object) {
    layout.extension = ".bin";
    layout.AddShard(BytesOf(*shard.shard));
  } else {
    AddTorchFile(ParameterPickle(*shard.shard), shard, &layout);
  }
  return layout;
}

ObjectLayout TorchFileLayout(std::string pickle) {
  ObjectLayout layout = {.extension = ".pt"};
  AddTorchFile(std::move(pickle), {}, &layout);
  return layout;
}

ObjectLayout LayoutOf(StoreFormat format, std::span<const ShardToLay> shards) {
  switch (format) {
    case StoreFormat::kDcp: return DcpLayout(shards);
    case StoreFormat::kUcp: return UcpLayout(shards.front());
    case StoreFormat::kSafetensors: break;
  }
  return SafetensorsLayout(shards);
}

}  // namespace harmonaize::store
