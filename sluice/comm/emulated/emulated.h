#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "sluice/comm/engine.h"

namespace sluice {

// A network: a message of b bytes takes alpha + b * beta seconds.
struct Link {
  double alpha = 0;                // seconds per message
  double beta = 0;                 // seconds per byte
  std::vector<double> slow_downs;  // factor on both, by rank; missing: 1
  // So many ranks in a row share a machine, where a message takes other times.
  std::size_t per_machine = 1;
  double inside_alpha = 0;
  double inside_beta = 0;

  // The first rank of a machine.
  std::size_t machine(std::size_t rank) const {
    return rank / per_machine * per_machine;
  }

  double slow_down(std::size_t rank) const {
    return rank < slow_downs.size() ? slow_downs[rank] : 1.0;
  }
};

// "ALPHA,RATE" as in "50us,1Gbit" (per second) or plain seconds and seconds per
// byte as in "5e-5,8e-9"; then "rank=FACTOR" for slow ranks, as in
// "50us,1Gbit,3=2.5", and "machine=RANKS/ALPHA/RATE" for machines, as in
// "50us,1Gbit,machine=4/2us/100Gbit".
Link parse_link(std::string_view text);
std::string describe(const Link& link);

// The ranks of `inner`, behind a network of one's own. Every rank has one port
// to send and one to receive; each carries one message at a time and is busy
// for all of alpha + b * beta, so that many small messages and all-to-all are
// not flattered. Machines are those of the link, if it has any. The engine's
// own collectives are charged what an ideal one
// takes: 2 (P - 1) messages of n / P elements.
//
// Time is what the inner engine's clock says, which all ranks must share: run
// all of them on one machine. With a ManualClock the network is simulated and
// computing takes no time.
std::unique_ptr<Engine> make_emulated(std::unique_ptr<Engine> inner,
                                      const Link& link);

}  // namespace sluice
