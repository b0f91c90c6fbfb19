# Finds what the Python module needs: the interpreter, its headers, and the torch
# that it imports. Sets SLUICE_BUILD_PYTHON unless the user has.

if(NOT Python3_EXECUTABLE AND EXISTS ${PROJECT_SOURCE_DIR}/.venv/bin/python)
  set(Python3_EXECUTABLE ${PROJECT_SOURCE_DIR}/.venv/bin/python)
endif()
find_package(Python3 QUIET COMPONENTS Interpreter Development.Module)
set(found OFF)
if(Torch_FOUND AND Python3_Development.Module_FOUND)
  # From its file: importing it takes seconds.
  execute_process(
    COMMAND ${Python3_EXECUTABLE} -c
      "import runpy, importlib.util as u, os; f = os.path.dirname(u.find_spec('torch').origin); print(f); print(runpy.run_path(f + '/version.py')['__version__'])"
    OUTPUT_VARIABLE answer OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  string(REPLACE "\n" ";" answer "${answer}")
  list(LENGTH answer lines)
  if(lines EQUAL 2)
    list(GET answer 0 folder)
    list(GET answer 1 SLUICE_TORCH_VERSION)
    # The library must be of the torch whose headers are used.
    find_library(SLUICE_TORCH_PYTHON torch_python
      PATHS ${TORCH_INSTALL_PREFIX}/lib NO_DEFAULT_PATH)
    get_filename_component(prefix ${TORCH_INSTALL_PREFIX} REALPATH)
    get_filename_component(folder ${folder} REALPATH)
    if(SLUICE_TORCH_PYTHON AND prefix STREQUAL folder)
      set(found ON)
    endif()
  endif()
endif()
option(SLUICE_BUILD_PYTHON "Build the Python package (needs torch >= 2.4 and Python's headers)" ${found})
if(SLUICE_BUILD_PYTHON AND NOT found)
  message(FATAL_ERROR "SLUICE_BUILD_PYTHON needs torch and the headers of the Python that imports "
    "it, but ${Python3_EXECUTABLE} has not both; install torch and python3-dev")
endif()
