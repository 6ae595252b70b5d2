#include "cli/checkpoints/store_commands.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/checkpoints/store_table.h"
#include "cli/command_line.h"
#include "cli/human_units.h"
#include "cli/json_view.h"
#include "src/base/clean_text.h"
#include "src/base/clock.h"
#include "src/base/json_text.h"
#include "src/checkpoint/json_fields.h"
#include "src/checkpoint/shard_reader.h"
#include "src/checkpoint/stored_checkpoint.h"
#include "src/store/export.h"
#include "src/store/verify.h"

namespace harmonaize {
namespace {

using checkpoint::ShardReader;
using checkpoint::StoredCheckpoint;

constexpr char kEndOfStoreStatus[] =
    "Exit status: 0; 1 when the folder is no store, or something is damaged; 2 for wrong options.\n"
    "\n";

constexpr char kListFooter[] =
    R"(FOLDER is the one that the job saves to. The newest checkpoint comes first: the one that was
committed last, also where the job went back to an earlier step.

  committed      whole, and durable; newer ones make it go
  kept           the same, and it stays: the job has said so
  not committed  being saved, or given up; it is removed some minutes after its last writer
  new            what was written for it; the rest lay in the store already

)";

constexpr char kVerifyFooter[] =
    R"(Every file is read. It has to be what its name says, by SHA-256, and each shard in it what its rank
has saved, by XXH3. The shards of each tensor have to cover it. What is wrong is named.

)";

constexpr char kExportFooter[] =
    R"(TARGET is a folder that does not exist. It appears when it is whole.

  safetensors  as Hugging Face has it: model.safetensors, or several and an index; objects of the
               program in objects.safetensors
  dcp          of PyTorch's torch.distributed.checkpoint; what the program saves as objects has to be
               what torch.save makes, since PyTorch's planner reads it so
  ucp          of DeepSpeed, to be loaded with "load_universal": true. 'module.P' or 'optimizer.fp32.P'
               is the parameter P, 'optimizer.exp_avg.P' a state of it; objects of the names
               'optimizer_state.pt' and 'mp_rank_00_model_states.pt' are these files

Where a file of the store fits as it is, the export has a hard link to it, which takes no room: what
writes to such a file changes the store. --copy makes files of their own.

)";

struct StoreOptions {
  std::string folder;
  std::string target;
  std::string format;
  std::optional<uint64_t> step;
  bool all = false;
  bool copy = false;
  bool json = false;
};

/// Shows on a terminal how far long work has come, and nothing elsewhere.
class ProgressLine {
 public:
  ~ProgressLine() {
    if (is_shown_) std::fputs("\r\033[K", stderr);
  }

  void Show(uint64_t done, uint64_t total) {
    // Twice a second is as often as a person looks.
    constexpr uint64_t kPauseNs = 500'000'000;
    const uint64_t now = MonotonicNanoseconds();
    if (!is_terminal_ || now < next_ns_) return;
    next_ns_ = now + kPauseNs;
    is_shown_ = true;
    const std::string line = fmt::format("\r\033[K{} of {}", HumanBytes(done), HumanBytes(total));
    std::fputs(line.c_str(), stderr);
    std::fflush(stderr);
  }

 private:
  const bool is_terminal_ = isatty(STDERR_FILENO) == 1;
  bool is_shown_ = false;
  uint64_t next_ns_ = MonotonicNanoseconds() + 500'000'000;
};

std::string Indented(const Json& document) {
  return JsonText(document, 2) + "\n";
}

Result<std::string> List(const StoreOptions& options) {
  HZ_ASSIGN_OR_RETURN(const std::vector<checkpoint::CheckpointSummary> list,
                      checkpoint::ListCheckpoints(options.folder));
  return options.json ? Indented(CheckpointDocument(list)) : CheckpointTable(list);
}

Result<std::string> Show(const StoreOptions& options) {
  HZ_ASSIGN_OR_RETURN(const std::unique_ptr<StoredCheckpoint> stored,
                      StoredCheckpoint::Open(options.folder, options.step));
  HZ_ASSIGN_OR_RETURN(const ShardReader reader, ShardReader::Of(stored.get()));
  return options.json ? Indented(TensorDocument(*stored, reader)) : TensorTable(*stored, reader);
}

// ---------------------------------------------------------------------------------------------
// Verifying

/// The outcome of looking at one checkpoint.
struct Finding {
  uint64_t step = 0;
  store::Verdict verdict = {};
};

/// A checkpoint that cannot be read is a finding, too, unless it has gone.
Result<Finding> VerifyOne(const std::string& folder, const checkpoint::CheckpointSummary& one) {
  if (!one.problem.empty()) return Finding{one.id.step, {.problems = {one.problem}}};
  const Result<std::unique_ptr<StoredCheckpoint>> stored =
      StoredCheckpoint::OpenOne(folder, one.id);
  if (!stored.ok()) {
    if (stored.status().code() != Code::kInvalidArgument) return stored.status();
    return Finding{one.id.step, {.problems = {stored.status().message()}}};
  }
  ProgressLine line;
  HZ_ASSIGN_OR_RETURN(
      store::Verdict verdict,
      store::Verify(stored->get(), [&](uint64_t done, uint64_t total) { line.Show(done, total); }));
  return Finding{one.id.step, std::move(verdict)};
}

/// Verifies all checkpoints that are, or were, committed, or the newest one that is asked for.
Result<std::vector<Finding>> VerifyAll(const StoreOptions& options) {
  HZ_ASSIGN_OR_RETURN(const std::vector<checkpoint::CheckpointSummary> list,
                      checkpoint::ListCheckpoints(options.folder));
  std::vector<Finding> findings;
  for (const checkpoint::CheckpointSummary& one : list) {
    const bool is_wanted = !options.step.has_value() || one.id.step == *options.step;
    if (!is_wanted || (!one.is_committed && one.problem.empty())) continue;
    HZ_ASSIGN_OR_RETURN(Finding finding, VerifyOne(options.folder, one));
    findings.push_back(std::move(finding));
    if (!options.all) return findings;
  }
  if (options.all || !findings.empty()) return findings;
  return Unavailable("{} has no committed checkpoint{}", options.folder,
                     options.step.has_value() ? fmt::format(" of step {}", *options.step) : "");
}

std::string FindingText(const Finding& finding) {
  const store::Verdict& verdict = finding.verdict;
  if (verdict.problems.empty()) {
    return fmt::format("step {} is whole: {} tensors and objects, {} shards, {} files, {}\n",
                       finding.step, verdict.tensors, verdict.shards, verdict.objects,
                       HumanBytes(verdict.bytes));
  }
  std::string text = fmt::format("step {} is damaged:\n", finding.step);
  for (const std::string& problem : verdict.problems) {
    text += "  " + CleanText(problem, problem.size()) + "\n";
  }
  return text;
}

Json FindingDocument(const Finding& finding) {
  return {{"step", finding.step},
          {"whole", finding.verdict.problems.empty()},
          {"problems", finding.verdict.problems},
          {"tensors", finding.verdict.tensors},
          {"shards", finding.verdict.shards},
          {"files", finding.verdict.objects},
          {"bytes", finding.verdict.bytes}};
}

int PrintFindings(const Result<std::vector<Finding>>& findings, bool as_json) {
  if (!findings.ok()) return Print(findings.status());
  std::string text;
  Json document = Json::array();
  bool is_damaged = false;
  for (const Finding& finding : *findings) {
    text += FindingText(finding);
    document.push_back(FindingDocument(finding));
    is_damaged = is_damaged || !finding.verdict.problems.empty();
  }
  if (findings->empty()) text = "no checkpoints\n";
  Print(as_json ? Indented({{"checkpoints", std::move(document)}}) : text);
  return is_damaged ? 1 : 0;
}

// ---------------------------------------------------------------------------------------------
// Exporting

Result<std::string> ExportTo(const StoreOptions& options) {
  HZ_ASSIGN_OR_RETURN(const std::unique_ptr<StoredCheckpoint> stored,
                      StoredCheckpoint::Open(options.folder, options.step));
  ProgressLine line;
  const store::ExportOptions wanted = {.format = *checkpoint::StoreFormatOf(options.format),
                                       .target = options.target,
                                       .uses_links = !options.copy};
  HZ_ASSIGN_OR_RETURN(const store::ExportSummary made,
                      store::Export(stored.get(), wanted, [&](uint64_t done, uint64_t total) {
                        line.Show(done, total);
                      }));
  std::string text = fmt::format("step {} is in {}: {} files, {} of them links, {} written\n",
                                 stored->summary().id.step, options.target, made.files,
                                 made.linked_files, HumanBytes(made.written_bytes));
  for (const std::string& note : made.notes) text += note + "\n";
  return text;
}

// ---------------------------------------------------------------------------------------------
// Subcommands

/// Calls a function that may run out of memory.
template <typename Value>
Result<Value> Guarded(Result<Value> (*function)(const StoreOptions&), const StoreOptions& options) {
  try {
    return function(options);
  } catch (const std::exception& error) {
    return InternalError("cannot read the checkpoint: {}", error.what());
  }
}

CLI::App* AddStoreCommand(CLI::App& checkpoints, const char* name, const char* description,
                          StoreOptions* options) {
  CLI::App* const command = checkpoints.add_subcommand(name, description);
  command->add_option("FOLDER", options->folder, "The store: the folder that the job saves to")
      ->required()
      ->type_name("");
  return command;
}

void AddStepOption(CLI::App* command, StoreOptions* options) {
  command->add_option("--step", options->step, "The checkpoint of this step (default: the newest)")
      ->type_name("N");
}

void AddList(CLI::App& checkpoints, CommandLine& command_line) {
  auto options = std::make_shared<StoreOptions>();
  CLI::App* const command =
      AddStoreCommand(checkpoints, "list", "List the checkpoints of a store.", options.get());
  command->footer(std::string(kListFooter) + kEndOfStoreStatus +
                  "Examples:\n  harmonaize checkpoints list /data/llama\n"
                  "  harmonaize checkpoints list /data/llama --json | jq '.checkpoints[0].step'");
  command->add_flag("--json", options->json, "Print the list as JSON");
  command->callback(
      [options, &command_line] { command_line.exit_status = Print(Guarded(&List, *options)); });
}

void AddShow(CLI::App& checkpoints, CommandLine& command_line) {
  auto options = std::make_shared<StoreOptions>();
  CLI::App* const command =
      AddStoreCommand(checkpoints, "show",
                      "Show the tensors of a checkpoint, and who has saved them.", options.get());
  command->footer(std::string(kEndOfStoreStatus) +
                  "Examples:\n  harmonaize checkpoints show /data/llama\n"
                  "  harmonaize checkpoints show /data/llama --step 1200 --json");
  AddStepOption(command, options.get());
  command->add_flag("--json", options->json, "Print the checkpoint as JSON");
  command->callback(
      [options, &command_line] { command_line.exit_status = Print(Guarded(&Show, *options)); });
}

void AddVerify(CLI::App& checkpoints, CommandLine& command_line) {
  auto options = std::make_shared<StoreOptions>();
  CLI::App* const command =
      AddStoreCommand(checkpoints, "verify",
                      "Read all of a checkpoint, and say whether it is whole.", options.get());
  command->footer(std::string(kVerifyFooter) + kEndOfStoreStatus +
                  "Examples:\n  harmonaize checkpoints verify /data/llama\n"
                  "  harmonaize checkpoints verify /data/llama --all");
  AddStepOption(command, options.get());
  command->add_flag("--all", options->all, "Verify every checkpoint of the store")
      ->excludes("--step");
  command->add_flag("--json", options->json, "Print what was found as JSON");
  command->callback([options, &command_line] {
    command_line.exit_status = PrintFindings(Guarded(&VerifyAll, *options), options->json);
  });
}

void AddExport(CLI::App& checkpoints, CommandLine& command_line) {
  auto options = std::make_shared<StoreOptions>();
  CLI::App* const command = AddStoreCommand(
      checkpoints, "export", "Make a folder of a checkpoint that others read.", options.get());
  command->footer(
      std::string(kExportFooter) + kEndOfStoreStatus +
      "Examples:\n  harmonaize checkpoints export /data/llama llama-hf --format safetensors\n"
      "  harmonaize checkpoints export /data/llama llama-dcp --format dcp --step 1200");
  command->add_option("TARGET", options->target, "The folder to make")->required()->type_name("");
  command->add_option("--format", options->format, "safetensors, dcp or ucp")
      ->required()
      ->check(CLI::IsMember({"safetensors", "dcp", "ucp"}))
      ->type_name("FORMAT");
  AddStepOption(command, options.get());
  command->add_flag("--copy", options->copy, "Make no links to files of the store");
  command->callback(
      [options, &command_line] { command_line.exit_status = Print(Guarded(&ExportTo, *options)); });
}

}  // namespace

void AddCheckpointStores(CLI::App& checkpoints, CommandLine& command_line) {
  AddList(checkpoints, command_line);
  AddShow(checkpoints, command_line);
  AddVerify(checkpoints, command_line);
  AddExport(checkpoints, command_line);
}

}  // namespace harmonaize
