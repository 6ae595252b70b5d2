#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harmonaize.h"

namespace harmonaize::testing {

/// The state of a training job of the tests, every value of which follows from the step: one tensor
/// divided by rows, one by columns, one that each rank has whole, a scalar of rank 0 and an object.
class SavedModel {
 public:
  /// This rank's part, with the values of a step.
  SavedModel(int rank, int ranks, uint64_t step);
  SavedModel(const SavedModel&) = delete;
  SavedModel& operator=(const SavedModel&) = delete;

  const std::vector<hzShard_t>& shards() const { return shards_; }

  /// Saves it. Returns what the call returns.
  ncclResult_t Save(hzCheckpointer_t saver, int flags = 0) const;
  /// Reads the same part of a checkpoint. Returns "" if that has all values of the step, else what
  /// is wrong.
  static std::string Compare(hzCheckpoint_t checkpoint, int rank, int ranks, uint64_t step);

 private:
  struct Tensor {
    std::string name;
    std::vector<int64_t> global_shape;
    std::vector<int64_t> offset;
    std::vector<int64_t> shape;
    std::vector<std::byte> data;
  };

  void Add(std::string name, hzElementType_t type, std::vector<int64_t> global_shape,
           std::vector<int64_t> offset, std::vector<int64_t> shape, bool is_object = false);

  const uint64_t step_;
  std::vector<Tensor> tensors_;
  std::vector<hzShard_t> shards_;
};

}  // namespace harmonaize::testing
