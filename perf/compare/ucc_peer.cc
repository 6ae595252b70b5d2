// The collectives of UCC:
//
//   compare_ucc RANKS FOLDER
//   compare_ucc --version
//
// An operation is made once, as persistent, and posted again and again: the fastest that UCC has.
// UCC has no send and receive.

#include <sched.h>
#include <ucc/api/ucc.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "perf/compare/forked_ranks.h"
#include "perf/compare/peer_loop.h"

namespace harmonaize::perf {
namespace {

struct Library {
  ucc_lib_h library = nullptr;
  ucc_context_h context = nullptr;
  ucc_team_h team = nullptr;
  ucc_coll_req_h request = nullptr;
  int spins = 0;
};

Library& LibraryOf(void* context) {
  return *static_cast<Library*>(context);
}

bool Check(ucc_status_t status, const char* call) {
  if (status >= 0) return true;
  std::fprintf(stderr, "compare_ucc: %s: %s\n", call, ucc_status_string(status));
  return false;
}

// Lets UCC's ranks find each other.
ucc_status_t AllGather(void* mine, void* all, size_t bytes, void* team, void** request) {
  PeerTeamAllGather(static_cast<PeerTeam*>(team), mine, all, bytes);
  *request = team;  // any that is not NULL
  return UCC_OK;
}
ucc_status_t IsDone(void*) {
  return UCC_OK;
}

ucc_oob_coll_t Exchange(PeerTeam* team) {
  return {.allgather = AllGather,
          .req_test = IsDone,
          .req_free = IsDone,
          .coll_info = team,
          .n_oob_eps = static_cast<uint32_t>(team->ranks),
          .oob_ep = static_cast<uint32_t>(team->rank)};
}

bool OpenLibrary(Library* library) {
  ucc_lib_config_h config;
  if (!Check(ucc_lib_config_read(nullptr, nullptr, &config), "ucc_lib_config_read")) return false;
  ucc_lib_params_t parameters{};
  parameters.mask = UCC_LIB_PARAM_FIELD_THREAD_MODE;
  parameters.thread_mode = UCC_THREAD_SINGLE;
  const ucc_status_t status = ucc_init(&parameters, config, &library->library);
  ucc_lib_config_release(config);
  return Check(status, "ucc_init");
}

bool OpenContext(Library* library, PeerTeam* team) {
  ucc_context_config_h config;
  if (!Check(ucc_context_config_read(library->library, nullptr, &config),
             "ucc_context_config_read")) {
    return false;
  }
  ucc_context_params_t parameters{};
  parameters.mask = UCC_CONTEXT_PARAM_FIELD_OOB;
  parameters.oob = Exchange(team);
  const ucc_status_t status =
      ucc_context_create(library->library, &parameters, config, &library->context);
  ucc_context_config_release(config);
  return Check(status, "ucc_context_create");
}

bool OpenTeam(Library* library, PeerTeam* team) {
  ucc_team_params_t parameters{};
  parameters.mask =
      UCC_TEAM_PARAM_FIELD_OOB | UCC_TEAM_PARAM_FIELD_EP | UCC_TEAM_PARAM_FIELD_EP_RANGE;
  parameters.oob = Exchange(team);
  parameters.ep = static_cast<uint64_t>(team->rank);
  parameters.ep_range = UCC_COLLECTIVE_EP_RANGE_CONTIG;
  if (!Check(ucc_team_create_post(&library->context, 1, &parameters, &library->team),
             "ucc_team_create_post")) {
    return false;
  }
  ucc_status_t status;
  while ((status = ucc_team_create_test(library->team)) == UCC_INPROGRESS) {
    ucc_context_progress(library->context);
  }
  return Check(status, "ucc_team_create_test");
}

ucc_coll_buffer_info_t BufferOf(float* buffer, size_t count) {
  return {.buffer = buffer,
          .count = count,
          .datatype = UCC_DT_FLOAT32,
          .mem_type = UCC_MEMORY_TYPE_HOST};
}

// Returns false where there is no such collective.
bool ArgumentsOf(const PeerWork* work, ucc_coll_args_t* arguments) {
  constexpr ucc_coll_type_t kNone = static_cast<ucc_coll_type_t>(0);
  constexpr ucc_coll_type_t kTypes[kPeerKinds] = {
      UCC_COLL_TYPE_ALLREDUCE, UCC_COLL_TYPE_REDUCE,         UCC_COLL_TYPE_BCAST,
      UCC_COLL_TYPE_ALLGATHER, UCC_COLL_TYPE_REDUCE_SCATTER, UCC_COLL_TYPE_ALLTOALL,
      UCC_COLL_TYPE_GATHER,    UCC_COLL_TYPE_SCATTER,        kNone};
  *arguments = {};
  arguments->mask = UCC_COLL_ARGS_FIELD_FLAGS;
  arguments->flags = UCC_COLL_ARGS_FLAG_PERSISTENT;
  arguments->coll_type = kTypes[work->kind];
  arguments->op = UCC_OP_SUM;
  arguments->root = 0;
  arguments->src.info = BufferOf(work->send, work->send_count);
  arguments->dst.info = BufferOf(work->recv, work->recv_count);
  // The broadcast is in place, as in all programs.
  if (work->kind == kPeerBroadcast && work->rank != 0) arguments->src.info.buffer = work->recv;
  return arguments->coll_type != kNone;
}

int Prepare(void* context, const PeerWork* work) {
  Library& library = LibraryOf(context);
  library.request = nullptr;
  ucc_coll_args_t arguments;
  if (work->in_turns || !ArgumentsOf(work, &arguments)) return kPeerUnsupported;
  const ucc_status_t status = ucc_collective_init(&arguments, &library.request, library.team);
  if (status == UCC_ERR_NOT_SUPPORTED || status == UCC_ERR_NOT_IMPLEMENTED) {
    library.request = nullptr;
    return kPeerUnsupported;
  }
  return Check(status, "ucc_collective_init") ? 0 : -1;
}

void Finish(void* context, const PeerWork*) {
  Library& library = LibraryOf(context);
  if (library.request != nullptr) ucc_collective_finalize(library.request);
}

int Run(void* context, const PeerWork*) {
  Library& library = LibraryOf(context);
  if (!Check(ucc_collective_post(library.request), "ucc_collective_post")) return -1;
  ucc_status_t status;
  for (int spins = 0; (status = ucc_collective_test(library.request)) == UCC_INPROGRESS; ++spins) {
    ucc_context_progress(library.context);
    if (spins >= library.spins) sched_yield();
  }
  return Check(status, "ucc_collective_test") ? 0 : -1;
}

bool Serve(const char* folder, int rank, int ranks) {
  PeerTeam team;
  Library context;
  if (PeerTeamJoin(&team, folder, rank, ranks) != 0 || !OpenLibrary(&context) ||
      !OpenContext(&context, &team) || !OpenTeam(&context, &team)) {
    return false;
  }
  context.spins = PeerSpins(ranks);
  const PeerLibrary library{.context = &context,
                            .allocate = PeerAllocateHeap,
                            .release = PeerReleaseHeap,
                            .prepare = Prepare,
                            .finish = Finish,
                            .run = Run};
  return PeerServe(&team, &library) == 0;
}

int Main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--version") {
    std::puts(ucc_get_version_string());
    return 0;
  }
  const int ranks = argc == 3 ? std::atoi(argv[1]) : 0;
  if (ranks < 1) {
    std::fprintf(stderr, "usage: %s RANKS FOLDER (perf/compare starts this)\n", argv[0]);
    return 2;
  }
  return RunForked(ranks, [&](int rank) { return Serve(argv[2], rank, ranks); }) ? 0 : 1;
}

}  // namespace
}  // namespace harmonaize::perf

int main(int argc, char** argv) {
  return harmonaize::perf::Main(argc, argv);
}
