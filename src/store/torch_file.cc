#include "src/store/torch_file.h"

#include <zlib.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace harmonaize::store {
namespace {

using checkpoint::BytesOf;
using checkpoint::ElementsOf;
using checkpoint::ElementType;
using checkpoint::Shard;

// ---------------------------------------------------------------------------------------------
// Pickles

/// How PyTorch names a type. Types that are younger than typed storages have none.
struct TorchType {
  std::string_view name;
  std::string_view storage;
};

// In the order of ElementType.
constexpr std::array<TorchType, checkpoint::kElementTypeCount> kTorchTypes = {
    {{"bool", "BoolStorage"},
     {"uint8", "ByteStorage"},
     {"int8", "CharStorage"},
     {"uint16", ""},
     {"int16", "ShortStorage"},
     {"uint32", ""},
     {"int32", "IntStorage"},
     {"uint64", ""},
     {"int64", "LongStorage"},
     {"float16", "HalfStorage"},
     {"bfloat16", "BFloat16Storage"},
     {"float32", "FloatStorage"},
     {"float64", "DoubleStorage"},
     {"float8_e4m3fn", ""},
     {"float8_e5m2", ""},
     {"complex64", "ComplexFloatStorage"}}};

const TorchType& TorchTypeOf(ElementType type) {
  return kTorchTypes[static_cast<size_t>(type)];
}

std::vector<int64_t> RowMajorStrides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * std::max<int64_t>(shape[i], 1);
  }
  return strides;
}

/// Pushes the identity of data/0.
void PushStorage(const Shard& shard, PickleWriter* pickle) {
  const TorchType& type = TorchTypeOf(shard.type);
  pickle->Mark();
  pickle->Text("storage");
  if (type.storage.empty()) {
    pickle->Global("torch.storage", "UntypedStorage");
  } else {
    pickle->Global("torch", type.storage);
  }
  pickle->Text("0");
  pickle->Text("cpu");
  const uint64_t count = type.storage.empty() ? BytesOf(shard) : ElementsOf(shard.box.shape);
  pickle->Number(static_cast<int64_t>(count));
  pickle->Tuple();
  pickle->Persistent();
}

void PushTensor(const Shard& shard, PickleWriter* pickle) {
  const bool has_storage = !TorchTypeOf(shard.type).storage.empty();
  pickle->Global("torch._utils", has_storage ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
  pickle->Mark();
  PushStorage(shard, pickle);
  pickle->Number(0);  // where the tensor begins in the storage
  pickle->Numbers(shard.box.shape);
  pickle->Numbers(RowMajorStrides(shard.box.shape));
  pickle->Flag(false);  // whether it requires gradients
  pickle->Global("collections", "OrderedDict");
  pickle->EmptyTuple();
  pickle->Reduce();  // its hooks
  if (!has_storage) PushElementType(shard.type, pickle);
  pickle->Tuple();
  pickle->Reduce();
}

// ---------------------------------------------------------------------------------------------
// ZIP

/// What does not fit into 32 bits stands in an extra field (ZIP64).
constexpr uint64_t kMost32 = 0xffff'ffff;
constexpr uint16_t kZip64Field = 1;
/// A field that pads, as PyTorch's own files have it.
constexpr uint16_t kPaddingField = 0x4246;
/// Version of ZIP that a reader needs: 4.5 has ZIP64.
constexpr uint16_t kZipVersion = 45;
/// Names are UTF-8.
constexpr uint16_t kZipFlags = 0x0800;
/// 1 January 1980, the first day that ZIP knows: files of the same contents have the same bytes.
constexpr uint16_t kZipDate = 0x0021;

std::string Number(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

struct Record {
  std::string name;
  uint32_t crc32 = 0;
  uint64_t bytes = 0;
  uint64_t at = 0;  ///< Of its header, from the archive's beginning.
};

/// Returns what the headers of both places have in common.
std::string CommonHeader(const Record& record, size_t extra_bytes) {
  const uint64_t bytes = std::min(record.bytes, kMost32);
  return Number(kZipVersion, 2) + Number(kZipFlags, 2) + Number(0, 2) + Number(0, 2) +
         Number(kZipDate, 2) + Number(record.crc32, 4) + Number(bytes, 4) + Number(bytes, 4) +
         Number(record.name.size(), 2) + Number(extra_bytes, 2);
}

class Archive {
 public:
  explicit Archive(ObjectLayout* layout) : layout_(layout), begin_(layout->bytes) {}

  void Add(const std::string& name, std::string contents) {
    const auto* bytes = reinterpret_cast<const Bytef*>(contents.data());
    AddHeader({.name = "archive/" + name,
               .crc32 = static_cast<uint32_t>(crc32_z(0, bytes, contents.size())),
               .bytes = contents.size()});
    layout_->AddOwn(std::move(contents));
  }

  void AddData(const std::string& name, uint64_t bytes, uint32_t crc) {
    AddHeader({.name = "archive/" + name, .crc32 = crc, .bytes = bytes});
    layout_->AddShard(bytes);
  }

  void Finish() {
    const uint64_t directory_at = At();
    for (const Record& record : records_) AddDirectoryEntry(record);
    const uint64_t directory_bytes = At() - directory_at;
    const uint64_t end_at = At();
    const std::string count = Number(records_.size(), 8);
    layout_->AddOwn(Number(0x06064b50, 4) + Number(44, 8) + Number(kZipVersion, 2) +
                    Number(kZipVersion, 2) + Number(0, 8) + count + count +
                    Number(directory_bytes, 8) + Number(directory_at, 8));
    layout_->AddOwn(Number(0x07064b50, 4) + Number(0, 4) + Number(end_at, 8) + Number(1, 4));
    const std::string short_count = Number(records_.size(), 2);
    layout_->AddOwn(Number(0x06054b50, 4) + Number(0, 4) + short_count + short_count +
                    Number(std::min(directory_bytes, kMost32), 4) +
                    Number(std::min(directory_at, kMost32), 4) + Number(0, 2));
  }

 private:
  uint64_t At() const { return layout_->bytes - begin_; }

  /// Pads the header, so that the contents begin at a multiple of kDataAlignment.
  void AddHeader(Record record) {
    constexpr size_t kHeaderBytes = 30;
    constexpr size_t kFieldHeadBytes = 4;
    record.at = At();
    std::string extra;
    if (record.bytes >= kMost32) {
      extra = Number(kZip64Field, 2) + Number(16, 2) + Number(record.bytes, 8) +
              Number(record.bytes, 8);
    }
    const uint64_t unpadded =
        record.at + kHeaderBytes + record.name.size() + extra.size() + kFieldHeadBytes;
    const uint64_t padding = (kDataAlignment - unpadded % kDataAlignment) % kDataAlignment;
    extra += Number(kPaddingField, 2) + Number(padding, 2) + std::string(padding, 'Z');
    layout_->AddOwn(Number(0x04034b50, 4) + CommonHeader(record, extra.size()) + record.name +
                    extra);
    records_.push_back(std::move(record));
  }

  void AddDirectoryEntry(const Record& record) {
    std::string extra;
    if (record.bytes >= kMost32) {
      extra = Number(kZip64Field, 2) + Number(16, 2) + Number(record.bytes, 8) +
              Number(record.bytes, 8);
    }
    // Data comes last, so every header begins in the first 4 GiB.
    layout_->AddOwn(Number(0x02014b50, 4) + Number(kZipVersion, 2) +
                    CommonHeader(record, extra.size()) + Number(0, 2) + Number(0, 2) +
                    Number(0, 2) + Number(0, 4) + Number(record.at, 4) + record.name + extra);
  }

  ObjectLayout* const layout_;
  const uint64_t begin_;
  std::vector<Record> records_;
};

}  // namespace

void PushElementType(ElementType type, PickleWriter* pickle) {
  pickle->Global("torch", TorchTypeOf(type).name);
}

std::string TensorPickle(const Shard& shard) {
  PickleWriter pickle;
  PushTensor(shard, &pickle);
  return pickle.Finish();
}

std::string ParameterPickle(const Shard& shard) {
  PickleWriter pickle;
  pickle.EmptyDictionary();
  pickle.Mark();
  pickle.Text("param");
  PushTensor(shard, &pickle);
  pickle.Text("cat_dim");
  pickle.Number(0);
  pickle.SetItems();
  return pickle.Finish();
}

void AddTorchFile(std::string pickle, const ShardToLay& data, ObjectLayout* layout) {
  const uint64_t begin = layout->bytes;
  Archive archive(layout);
  archive.Add("data.pkl", std::move(pickle));
  archive.Add("byteorder", "little");
  archive.Add("version", "3\n");
  if (data.shard != nullptr) archive.AddData("data/0", BytesOf(*data.shard), data.crc32);
  archive.Finish();
  if (data.shard == nullptr) return;
  layout->shards.back().blob_at = begin;
  layout->shards.back().blob_bytes = layout->bytes - begin;
}

}  // namespace harmonaize::store
