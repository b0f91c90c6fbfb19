#pragma once

#include <string>

#include "sluice/core/atomic_file.h"
#include "sluice/report/run_record.h"  // IWYU pragma: export

namespace sluice {

// Replaces the file. Throws std::runtime_error if it cannot be written.
inline void write_file(const std::string& path, const std::string& text) {
  write_text(path, text);
}

}  // namespace sluice
