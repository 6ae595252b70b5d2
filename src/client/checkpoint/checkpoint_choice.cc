#include "src/client/checkpoint/checkpoint_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "src/base/clean_text.h"
#include "src/base/json_text.h"
#include "src/base/time_text.h"
#include "src/checkpoint/stored_checkpoint.h"
#include "src/client/checkpoint/provider_store.h"
#include "src/client/session/session.h"
#include "src/ipc/messages.h"

namespace harmonaize {
namespace {

using nlohmann::json;

/// Pause between two questions for what rank 0 has chosen: it may have to look at a store first.
constexpr std::chrono::milliseconds kAskEvery{2};
/// Most bytes of an error that rank 0 tells the others.
constexpr size_t kMostErrorBytes = 400;

/// Returns that list as a document with a list.
Result<json> SavesOf(Communicator& communicator) {
  HZ_ASSIGN_OR_RETURN(const std::string text, ListSaves(communicator));
  json document = ReadJson(text);
  if (!document.is_object() || !document["checkpoints"].is_array()) {
    return InternalError("the daemon's list of checkpoints cannot be read");
  }
  return document;
}

/// Returns how many ranks a list of a save names.
size_t CountIn(const json& save, const char* list) {
  const auto found = save.find(list);
  return found != save.end() && found->is_array() ? found->size() : 0;
}

std::optional<uint64_t> SaveIn(const std::string& text) {
  uint64_t save = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), save, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return save;
}

/// A checkpoint that can be chosen, and when it was saved, as TimeText has it.
struct Candidate {
  CheckpointChoice choice;
  std::string time;
};

/// Returns where a checkpoint of the daemon's list is nearest; nullopt: it is whole nowhere.
std::optional<CheckpointPlace> PlaceOf(const json& save, bool may_be_stored) {
  const int ranks = save.value("ranks", 0);
  const size_t here = CountIn(save, "parts_here");
  const size_t elsewhere = CountIn(save, "parts_elsewhere");
  if (ranks >= 1 && here + elsewhere == static_cast<size_t>(ranks)) {
    return elsewhere == 0 ? CheckpointPlace::kMemory : CheckpointPlace::kPeer;
  }
  if (ranks >= 1 && may_be_stored && save.value("stored", false)) return CheckpointPlace::kStorage;
  return std::nullopt;
}

/// Returns the newest checkpoint of a daemon's list of which hosts have all parts in memory or, if
/// that counts, that the provider's store has; nullopt: there is none.
std::optional<Candidate> NewestOfDaemons(const json& document, std::optional<uint64_t> step,
                                         bool may_be_stored) {
  for (const json& one : document["checkpoints"]) {
    const std::optional<uint64_t> save = SaveIn(one.value("save", std::string()));
    const std::optional<CheckpointPlace> place = PlaceOf(one, may_be_stored);
    if (!save.has_value() || !place.has_value()) continue;
    const CheckpointChoice choice = {.step = one.value("step", uint64_t{0}),
                                     .save = *save,
                                     .ranks = one.value("ranks", 0),
                                     .place = *place};
    if (choice.step != step.value_or(choice.step)) continue;
    const double saved_seconds = one.value("saved", 0.0);
    return Candidate{choice, TimeText(static_cast<int64_t>(saved_seconds * 1e9))};
  }
  return std::nullopt;
}

/// Returns why there is no checkpoint, as a daemon's list and the folder have it.
Status NoneOf(const json& document, const std::string& folder, std::optional<uint64_t> step) {
  const std::string store = document.value("provider_store", std::string());
  if (folder == kProviderStore && store == "none") {
    return InvalidUsage("this provider stores no checkpoints ('{}'): name a folder of your own",
                        folder);
  }
  if (folder == kProviderStore && store == "unreadable") {
    return SystemError("the provider's store cannot be read now: ask the provider");
  }
  const std::string which = step.has_value() ? fmt::format("of step {} ", *step) : "";
  const std::string where = folder.empty()             ? ""
                            : folder == kProviderStore ? ", or in the provider's store"
                                                       : ", or in " + folder;
  return Unavailable(
      "there is no checkpoint {}of this job in memory{} (HARMONAIZE_JOB names the "
      "job, the same in all runs)",
      which, where);
}

/// Returns the newest checkpoint of a folder's store; nullopt: there is none, or no store.
Result<std::optional<Candidate>> NewestInStore(const std::string& folder,
                                               std::optional<uint64_t> step) {
  if (folder.empty() || folder == kProviderStore) return std::optional<Candidate>();
  const Result<std::vector<checkpoint::CheckpointSummary>> list =
      checkpoint::ListCheckpoints(folder);
  if (list.status().code() == Code::kUnavailable) return std::optional<Candidate>();
  HZ_RETURN_IF_ERROR(list.status());
  for (const checkpoint::CheckpointSummary& one : *list) {
    if (!one.is_committed || !one.problem.empty()) continue;
    if (one.id.step != step.value_or(one.id.step)) continue;
    const CheckpointChoice choice = {.step = one.id.step,
                                     .save = one.id.save,
                                     .ranks = one.ranks,
                                     .place = CheckpointPlace::kStorage};
    return std::optional<Candidate>({choice, one.time});
  }
  return std::optional<Candidate>();
}

/// Chooses for all ranks. Memory is nearer, and what is there is usually the newest, since a save
/// goes there first. But another run of the job, on other hosts, may have stored a newer one.
Result<CheckpointChoice> Choose(Communicator& communicator, const std::string& folder,
                                std::optional<uint64_t> step) {
  HZ_ASSIGN_OR_RETURN(const json document, SavesOf(communicator));
  const std::optional<Candidate> in_memory =
      NewestOfDaemons(document, step, folder == kProviderStore);
  HZ_ASSIGN_OR_RETURN(const std::optional<Candidate> stored, NewestInStore(folder, step));
  if (in_memory.has_value()) {
    // The daemon and the rank have noted the time of one save by two looks at the clock.
    const bool is_newest = !stored.has_value() || stored->choice.save == in_memory->choice.save ||
                           stored->time <= in_memory->time;
    return is_newest ? in_memory->choice : stored->choice;
  }
  if (stored.has_value()) return stored->choice;
  return NoneOf(document, folder, step);
}

std::string Encode(const Result<CheckpointChoice>& choice) {
  if (!choice.ok()) {
    return JsonText(json{{"code", static_cast<int>(choice.status().code())},
                         {"error", CleanText(choice.status().message(), kMostErrorBytes)}});
  }
  return JsonText(json{{"step", choice->step},
                       {"save", fmt::format("{:016x}", choice->save)},
                       {"ranks", choice->ranks},
                       {"place", static_cast<int>(choice->place)}});
}

/// Reads what rank 0 has told. It is a process of the same user, whose program may still be wrong.
Result<CheckpointChoice> Decode(const std::string& text) {
  const json told = ReadJson(text);
  if (!told.is_object()) return InternalError("rank 0 has chosen a checkpoint in no known form");
  if (told.contains("error")) {
    const int code = told.value("code", 0);
    const bool is_code = code > 0 && code <= static_cast<int>(Code::kUnavailable);
    return Status(is_code ? static_cast<Code>(code) : Code::kInternalError,
                  told.value("error", std::string()));
  }
  const std::optional<uint64_t> save = SaveIn(told.value("save", std::string()));
  const int place = told.value("place", -1);
  if (!save.has_value() || place < 0 || place > static_cast<int>(CheckpointPlace::kStorage)) {
    return InternalError("rank 0 has chosen a checkpoint in no known form");
  }
  return CheckpointChoice{.step = told.value("step", uint64_t{0}),
                          .save = *save,
                          .ranks = told.value("ranks", 1),
                          .place = static_cast<CheckpointPlace>(place)};
}

Status Tell(Communicator& communicator, const std::string& choice) {
  PostChoiceRequest request;
  request.member = communicator.member();
  SetFieldText(request.choice, choice);
  return communicator.session().Call<EmptyReply>(request).status();
}

/// Waits for rank 0.
Result<std::string> Hear(Communicator& communicator) {
  HearChoiceRequest request;
  request.member = communicator.member();
  for (;;) {
    HZ_ASSIGN_OR_RETURN(const HearChoiceReply reply,
                        communicator.session().Call<HearChoiceReply>(request));
    if (reply.is_there != 0) return FieldText(reply.choice);
    std::this_thread::sleep_for(kAskEvery);
  }
}

}  // namespace

Result<std::string> ListSaves(Communicator& communicator) {
  ListSavesRequest request;
  request.member = communicator.member();
  return communicator.session().CallForDocument(request);
}

Result<CheckpointChoice> AgreeOnCheckpoint(Communicator& communicator, const std::string& folder,
                                           std::optional<uint64_t> step) {
  if (communicator.rank() == 0) {
    HZ_RETURN_IF_ERROR(Tell(communicator, Encode(Choose(communicator, folder, step))));
  }
  HZ_ASSIGN_OR_RETURN(const std::string told, Hear(communicator));
  return Decode(told);
}

}  // namespace harmonaize
