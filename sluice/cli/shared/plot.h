#pragma once

#include "sluice/report/plot.h"  // IWYU pragma: export
