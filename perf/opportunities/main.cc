// A representative job over the NCCL API: training, serving, a pipeline or experts. One process a
// rank; opportunities.py runs such jobs with and without cooperation with the provider.

#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>

#include "perf/opportunities/experts.h"
#include "perf/opportunities/job.h"
#include "perf/opportunities/pipeline.h"
#include "perf/opportunities/serving.h"
#include "perf/opportunities/training.h"
#include "perf/opportunities/window.h"

namespace harmonaize::opportunities {
namespace {

struct Options {
  std::string name = "job";
  WindowOptions window;
  TrainingOptions training;
  ServingOptions serving;
  PipelineOptions pipeline;
  ExpertsOptions experts;
};

/// Adds an option in milliseconds.
void AddMilliseconds(CLI::App* app, const std::string& name, double* seconds,
                     const std::string& meaning) {
  app->add_option_function<double>(
         name, [seconds](double milliseconds) { *seconds = milliseconds * 1e-3; },
         fmt::format("{} in milliseconds ({:g})", meaning, *seconds * 1e3))
      ->check(CLI::NonNegativeNumber);
}

/// Adds a size in bytes.
void AddSize(CLI::App* app, const std::string& name, size_t* bytes, const std::string& meaning) {
  app->add_option(name, *bytes, fmt::format("{}, with suffix K or M ({})", meaning, *bytes))
      ->transform(CLI::AsSizeValue(false));
}

CLI::App* AddKind(CLI::App* app, const std::string& kind, const std::string& meaning,
                  Options* options) {
  CLI::App* const added = app->add_subcommand(kind, meaning);
  added->add_option("--name", options->name, "of the job in what it writes")->capture_default_str();
  added->add_option("--after", options->window.after, "count nothing before this file is there");
  added->add_option("--until", options->window.until, "end as soon as this file is there");
  added
      ->add_option("--seconds,--most-seconds", options->window.seconds,
                   "end after so many seconds that count")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  return added;
}

CLI::App* AddTraining(CLI::App* app, Options* all) {
  TrainingOptions* const options = &all->training;
  CLI::App* const kind = AddKind(app, "training", "data-parallel training of a perceptron", all);
  kind->add_option("--widths", options->widths, "inputs, hidden layers and classes, by commas")
      ->delimiter(',')
      ->expected(2, 64)
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  kind->add_option("--seed", options->seed, "of parameters and samples")->capture_default_str();
  kind->add_option("--label-noise", options->label_noise, "part of the labels that are random")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  kind->add_option("--batch", options->batch, "samples of one pass of one rank")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  kind->add_option("--accumulation", options->accumulation, "backward passes for each exchange")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  kind->add_option("--learning-rate", options->learning_rate)
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  kind->add_option("--momentum", options->momentum)
      ->check(CLI::Range(0.0, 0.999))
      ->capture_default_str();
  kind->add_flag("--bucket-by-layer", options->bucket_by_layer,
                 "exchange each layer's gradients while those below it are computed");
  AddMilliseconds(kind, "--compute", &options->compute_seconds,
                  "pause of each pass besides its arithmetic");
  kind->add_option("--until-loss", options->until_loss, "end at this held-out loss");
  kind->add_option("--most-steps", options->most_steps, "end after so many steps");
  kind->add_option("--evaluate-samples", options->evaluate_samples,
                   "samples from one evaluation of the held-out loss to the next")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  kind->add_flag("--report", options->report, "tell the provider how far training has come");
  kind->add_flag("--follow", options->follow, "take over what the provider advises");
  return kind;
}

CLI::App* AddServing(CLI::App* app, Options* all) {
  ServingOptions* const options = &all->serving;
  CLI::App* const kind = AddKind(app, "serving", "tensor-parallel serving of requests", all);
  AddSize(kind, "--bytes", &options->bytes, "of an all-reduce");
  kind->add_option("--layers", options->layers, "with two all-reduces each for a token")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  AddMilliseconds(kind, "--compute", &options->compute_seconds, "pause before each all-reduce");
  kind->add_option("--rate", options->requests_per_second, "requests a second")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  kind->add_option("--tokens", options->tokens, "of a request")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  kind->add_option("--seed", options->seed, "of the times of arrival")->capture_default_str();
  return kind;
}

CLI::App* AddPipeline(CLI::App* app, Options* all) {
  PipelineOptions* const options = &all->pipeline;
  CLI::App* const kind = AddKind(app, "pipeline", "stages that pass activations on", all);
  AddSize(kind, "--bytes", &options->bytes, "of a micro-batch's activations");
  kind->add_option("--micro-batches", options->micro_batches, "of a batch")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  AddMilliseconds(kind, "--compute", &options->compute_seconds,
                  "a micro-batch's forward pass at a stage");
  return kind;
}

CLI::App* AddExperts(CLI::App* app, Options* all) {
  ExpertsOptions* const options = &all->experts;
  CLI::App* const kind = AddKind(app, "experts", "tokens to experts and back", all);
  AddSize(kind, "--bytes", &options->token_bytes, "of a token");
  kind->add_option("--tokens", options->tokens, "of a rank in a step, as many as ranks at least")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  AddMilliseconds(kind, "--compute", &options->compute_seconds, "an expert's time for one token");
  kind->add_option("--skew", options->skew, "of the experts' popularity; 0: alike")
      ->check(CLI::Range(0.0, 10.0))
      ->capture_default_str();
  kind->add_option("--seed", options->seed, "of the tokens' ways")->capture_default_str();
  return kind;
}

template <typename Kind, typename KindOptions>
int Run(const std::string& name, const Options& all, const KindOptions& options) {
  Job job = Job::Join(name, all.name);
  Window window(all.window);
  { Kind(job, &window, options).Run(); }
  job.Leave();
  return 0;
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Runs one representative job. Started by fabric run, harmonaize run, torchrun or mpirun; "
      "rank 0 writes lines of JSON.",
      "opportunity_job");
  app.require_subcommand(1);
  const CLI::App* const training = AddTraining(&app, &options);
  const CLI::App* const serving = AddServing(&app, &options);
  const CLI::App* const pipeline = AddPipeline(&app, &options);
  const CLI::App* const experts = AddExperts(&app, &options);
  CLI11_PARSE(app, argc, argv);
  if (training->parsed()) return Run<Training>("training", options, options.training);
  if (serving->parsed()) return Run<Serving>("serving", options, options.serving);
  if (pipeline->parsed()) return Run<Pipeline>("pipeline", options, options.pipeline);
  if (experts->parsed()) return Run<Experts>("experts", options, options.experts);
  return 2;
}

}  // namespace
}  // namespace harmonaize::opportunities

int main(int argc, char** argv) {
  return harmonaize::opportunities::Main(argc, argv);
}
