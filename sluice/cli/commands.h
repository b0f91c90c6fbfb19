#pragma once

#include <CLI/CLI.hpp>

// Each adds its subcommand, with options and callback, to the program.

namespace sluice {

void add_list(CLI::App& app);
// `sluice bench`: the parent of the benchmarks.
void add_bench(CLI::App& app);
void add_bench_select(CLI::App& bench);
void add_bench_wire(CLI::App& bench);
void add_bench_collective(CLI::App& bench);
// Says what to install, in a build without torch.
void add_bench_data(CLI::App& bench);
void add_bench_audio(CLI::App& bench);
void add_bench_text(CLI::App& bench);
void add_probe(CLI::App& app);
// `sluice plan`: the parent of these.
void add_plan(CLI::App& app);
void add_plan_make(CLI::App& plan);
void add_plan_explain(CLI::App& plan);
void add_plan_simulate(CLI::App& plan);
void add_plan_diff(CLI::App& plan);
void add_plan_profile(CLI::App& plan);
void add_plan_claims(CLI::App& plan);
void add_advise(CLI::App& app);
// Says what to install, in a build without torch.
void add_train(CLI::App& app);
void add_evaluate(CLI::App& app);
void add_export(CLI::App& app);
void add_compare(CLI::App& app);
// `sluice study`: the parent of these.
void add_study(CLI::App& app);
void add_study_gradients(CLI::App& study);
void add_study_convergence(CLI::App& study);
void add_study_costs(CLI::App& study);
void add_report(CLI::App& app);
// `sluice data`: the parent of these.
void add_data(CLI::App& app);
void add_data_vocab(CLI::App& data);
// After all others, whose options it knows.
void add_completion(CLI::App& app);

}  // namespace sluice
