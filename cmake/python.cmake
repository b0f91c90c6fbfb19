# Finds what the Python module needs: the interpreter, its headers, and the torch
# that it imports. Sets SLUICE_BUILD_PYTHON unless the user has: on where `sluice
# train` is built by the same torch.

if(NOT Python3_EXECUTABLE AND EXISTS ${PROJECT_SOURCE_DIR}/.venv/bin/python)
  set(Python3_EXECUTABLE ${PROJECT_SOURCE_DIR}/.venv/bin/python)
endif()
set(wanted ${SLUICE_WITH_TORCH})
if(DEFINED SLUICE_BUILD_PYTHON)
  set(wanted ${SLUICE_BUILD_PYTHON})
endif()

set(folder "")
if(wanted)
  find_package(Python3 QUIET COMPONENTS Interpreter Development.Module)
  # From its files: importing it takes seconds.
  execute_process(
    COMMAND ${Python3_EXECUTABLE} -c
      "import runpy, importlib.util as u, os; f = os.path.dirname(u.find_spec('torch').origin); print(os.path.realpath(f)); print(runpy.run_path(f + '/version.py')['__version__'])"
    OUTPUT_VARIABLE answer OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  string(REPLACE "\n" ";" answer "${answer}")
  list(LENGTH answer lines)
  if(lines EQUAL 2)
    list(GET answer 0 folder)
    list(GET answer 1 SLUICE_TORCH_VERSION)
  endif()
endif()
if(folder AND NOT Torch_FOUND)
  set(level "${CMAKE_MESSAGE_LOG_LEVEL}")
  set(CMAKE_MESSAGE_LOG_LEVEL ERROR)
  find_package(Torch QUIET PATHS ${folder}/share/cmake/Torch NO_DEFAULT_PATH)
  set(CMAKE_MESSAGE_LOG_LEVEL "${level}")
endif()

set(problem "")
if(NOT folder AND SKBUILD)
  set(problem "sluice is built for the torch that you have, which an isolated build does not "
    "see: pip install --no-build-isolation . (with torch, scikit-build-core, cmake and ninja installed)")
elseif(NOT folder)
  set(problem "the interpreter must have torch, but ${Python3_EXECUTABLE} has none; "
    "Python3_EXECUTABLE names another")
elseif(NOT Python3_Development.Module_FOUND)
  set(problem "the headers of ${Python3_EXECUTABLE} must be there; install python3-dev")
elseif(NOT Torch_FOUND)
  set(problem "the torch in ${folder} must have its CMake files, but has none")
else()
  get_filename_component(prefix ${TORCH_INSTALL_PREFIX} REALPATH)
  find_library(SLUICE_TORCH_PYTHON torch_python PATHS ${prefix}/lib NO_DEFAULT_PATH)
  if(NOT prefix STREQUAL folder)
    set(problem "the torch that is built with, ${prefix}, must be that of "
      "${Python3_EXECUTABLE}, which is ${folder}")
  elseif(NOT SLUICE_TORCH_PYTHON)
    set(problem "the torch in ${folder} must have libtorch_python, but has none")
  elseif(SLUICE_TORCH_VERSION VERSION_LESS 2.4)
    set(problem "torch must be 2.4 or later, got ${SLUICE_TORCH_VERSION}")
  endif()
endif()
set(found ${wanted})
if(NOT problem STREQUAL "")
  set(found OFF)
endif()
option(SLUICE_BUILD_PYTHON "Build the Python package (needs torch >= 2.4 and Python's headers)" ${found})
if(SLUICE_BUILD_PYTHON AND NOT found)
  string(CONCAT problem ${problem})
  message(FATAL_ERROR "[sluice] ${problem}")
endif()
