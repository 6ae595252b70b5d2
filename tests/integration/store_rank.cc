// A rank that `harmonaize run` starts: it stores a checkpoint in the folder that its argument
// names, as it does by default, and reads it back from there.

#include <cstdio>
#include <cstdlib>
#include <string>

#include "harmonaize.h"
#include "tests/support/saved_model.h"

namespace {

constexpr uint64_t kStep = 7;

/// Ends the process unless the call has succeeded.
void Check(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, ncclGetLastError(nullptr));
  std::exit(1);
}

int NumberIn(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? 0 : std::atoi(text);
}

}  // namespace

int main(int argc, char** argv) {
  using harmonaize::testing::SavedModel;
  if (argc != 2) return 2;
  const int rank = NumberIn("RANK");
  const int ranks = NumberIn("WORLD_SIZE");
  setenv("NCCL_COMM_ID", ("store-rank:" + std::string(std::getenv("MASTER_PORT"))).c_str(), 1);
  ncclUniqueId id;
  Check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  ncclComm_t comm = nullptr;
  Check(ncclCommInitRank(&comm, ranks, id, rank), "ncclCommInitRank");
  hzCheckpointerConfig_t config = HZ_CHECKPOINTER_CONFIG_INITIALIZER;
  config.folder = argv[1];
  hzCheckpointer_t saver = nullptr;
  Check(hzCheckpointerCreate(comm, &config, &saver), "hzCheckpointerCreate");
  Check(SavedModel(rank, ranks, kStep).Save(saver), "hzCheckpointSave");
  Check(hzCheckpointWait(saver, kStep, hzInStorage, 60'000), "hzCheckpointWait");
  // The daemon forgets it; what is read then is in the folder.
  Check(hzCheckpointerDestroy(saver), "hzCheckpointerDestroy");
  hzCheckpoint_t found = nullptr;
  Check(hzCheckpointOpen(nullptr, config.folder, kStep, &found), "hzCheckpointOpen");
  const std::string wrong = SavedModel::Compare(found, rank, ranks, kStep);
  Check(hzCheckpointClose(found), "hzCheckpointClose");
  Check(ncclCommDestroy(comm), "ncclCommDestroy");
  std::puts(wrong.empty() ? "stored and read" : wrong.c_str());
  return wrong.empty() ? 0 : 1;
}
