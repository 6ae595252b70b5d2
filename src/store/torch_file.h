#pragma once

#include <string>

#include "src/checkpoint/shard.h"
#include "src/store/object_layout.h"
#include "src/store/pickle_writer.h"

namespace harmonaize::store {

// Files of torch.save: a ZIP archive without compression, with a pickle (data.pkl) and the bytes of
// the tensors that it names (data/0). Read by PyTorch 1.6 and later.
// Sources: PKWARE's APPNOTE 6.3.10 (ZIP); PyTorch's documentation, "Serialization semantics".

/// Returns the pickle of a tensor of the shard's box, and of a dictionary with it as "param", as
/// DeepSpeed has it. The tensor's bytes are data/0.
std::string TensorPickle(const checkpoint::Shard& shard);
std::string ParameterPickle(const checkpoint::Shard& shard);
/// Pushes PyTorch's type of a shard's elements: torch.float32.
void PushElementType(checkpoint::ElementType type, PickleWriter* pickle);

/// Appends a file of torch.save to a layout. If `data` has a shard, the file has its bytes, too.
void AddTorchFile(std::string pickle, const ShardToLay& data, ObjectLayout* layout);

}  // namespace harmonaize::store
