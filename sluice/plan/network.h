#pragma once

#include <string>
#include <string_view>

#include "sluice/cost/model.h"

// network.json as `sluice probe` writes it (cli/shared/network_file.h lists
// its keys), or by hand:
//
//   {"format": 1, "alpha": 5e-5, "beta": 8e-9}
//
// Instead of alpha and beta it may have times of messages of two sizes or more,
// "times": [{"bytes": 0, "seconds": 5e-5}, ...]. Where machines have several
// ranks, "machine": {"ranks": 8, "alpha": 2e-6, "beta": 1e-11} says how many,
// and what a message takes between two of them. "date" says when it was
// measured, "spread", {"alpha", "beta"}, how far apart the quartiles were.

namespace sluice {

// Throws std::invalid_argument for what makes no sense: unknown keys, numbers
// below zero, times of one size alone.
Topology network_from_json(std::string_view json);

// As a run writes it, of so many workers; `network` says how it is known.
std::string to_json(const Topology& topology, std::size_t workers,
                    std::string_view network, std::string_view date);

// Throws std::runtime_error for what cannot be read, too.
Topology read_network(const std::string& path);

}  // namespace sluice
