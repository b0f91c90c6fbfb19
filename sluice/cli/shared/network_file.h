#pragma once

#include <string>

// network.json: what `sluice probe` has measured between some ranks.
// plan/network.h reads it, and says what one written by hand needs.
//
//   format     1
//   engine     mpi, threads or simulated
//   network    as it is, emulated: ... or simulated: ...
//   date       when
//   workers    number of ranks
//   hosts      host name of every rank
//   alpha      seconds per message between two ranks: the median of pairs
//   beta       seconds per byte, likewise
//   spread     {alpha, beta}: how far apart the quartiles of pairs are
//   pairs      [{from, to, alpha, beta}], one way
//   ring       [{bytes, seconds, rate}]: every rank sends `bytes` to the next
//              one at once; rate in bytes per second and rank
//   allreduce  {alpha, beta, by, times}: seconds are about alpha + bytes * beta
//              for a dense vector of so many bytes
//   allgather  {alpha, beta, times}: the same for bytes of each rank to all;
//              times: [{bytes, seconds}] of both

namespace sluice {

// Throws std::invalid_argument unless the file could be written.
void check_network_file(const std::string& path);

// The beta of a file. Throws std::invalid_argument if there is none.
double read_beta(const std::string& path);

}  // namespace sluice
