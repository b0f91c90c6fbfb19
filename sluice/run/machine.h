#pragma once

#include <string>

// Where and when something was measured, for who reads of it later.

namespace sluice {

// What the processor is called, as in "AMD EPYC"; "a CPU" if nobody knows.
std::string processor_name();

// As in "2026-11-18", of the clock of the machine, in UTC.
std::string today();

}  // namespace sluice
