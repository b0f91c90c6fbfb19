# Finds LibTorch: where CMAKE_PREFIX_PATH or Torch_DIR say, else in the virtual
# environment that tools/setup makes. Sets SLUICE_WITH_TORCH unless the user has.

set(hint "")
set(python ${PROJECT_SOURCE_DIR}/.venv/bin/python)
if(NOT CMAKE_PREFIX_PATH AND NOT Torch_DIR AND EXISTS ${python})
  # Without importing it, which takes seconds.
  execute_process(
    COMMAND ${python} -c
      "import importlib.util as u, os; print(os.path.dirname(u.find_spec('torch').origin))"
    OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(folder)
    set(hint HINTS ${folder}/share/cmake/Torch)
  endif()
endif()

# TorchConfig warns of a profiling library that nobody needs.
set(level "${CMAKE_MESSAGE_LOG_LEVEL}")
set(CMAKE_MESSAGE_LOG_LEVEL ERROR)
if(NOT DEFINED SLUICE_WITH_TORCH AND SLUICE_BUILD_PROGRAM)
  find_package(Torch QUIET ${hint})
  find_package(ZLIB QUIET)
elseif(SLUICE_WITH_TORCH)
  find_package(Torch REQUIRED ${hint})
endif()
set(CMAKE_MESSAGE_LOG_LEVEL "${level}")
set(found OFF)
if(Torch_FOUND AND ZLIB_FOUND)
  set(found ON)
endif()
option(SLUICE_WITH_TORCH "Build `sluice train` (needs LibTorch >= 2.4 and zlib)" ${found})
