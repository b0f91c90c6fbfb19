# Compiles the CUDA backend where there is an nvcc; sets SLUICE_WITH_CUDA unless
# the user has. By a command of its own rather than as a language of CMake's,
# which would make every user of an installed Sluice enable CUDA too.

find_program(SLUICE_NVCC nvcc HINTS /usr/local/cuda/bin)
set(found OFF)
if(SLUICE_NVCC)
  get_filename_component(cuda_root ${SLUICE_NVCC} REALPATH)
  get_filename_component(cuda_root ${cuda_root} DIRECTORY)
  get_filename_component(cuda_root ${cuda_root} DIRECTORY)
  find_library(SLUICE_CUDART cudart_static
    HINTS ${cuda_root}/lib64 ${cuda_root}/targets/x86_64-linux/lib ${cuda_root}/lib)
  if(SLUICE_CUDART)
    set(found ON)
  endif()
endif()
option(SLUICE_WITH_CUDA "Build the CUDA backend (needs nvcc >= 12)" ${found})
set(SLUICE_CUDA_ARCHITECTURES "80-virtual;90-real" CACHE STRING
  "GPUs to compile for, as CMAKE_CUDA_ARCHITECTURES has them")
if(SLUICE_WITH_CUDA AND NOT found)
  message(FATAL_ERROR "SLUICE_WITH_CUDA needs nvcc and libcudart_static.a, found "
    "'${SLUICE_NVCC}' and '${SLUICE_CUDART}'; set SLUICE_NVCC to the compiler")
endif()

# sluice_cuda_objects(OUT FILES...): objects to add to a target.
function(sluice_cuda_objects out)
  set(flags -std=c++20 -O3 --expt-relaxed-constexpr -fmad=false -lineinfo
    -Xcompiler=-fPIC,-ffp-contract=off)
  # As all files around: of torch's before 2.6 strings are of another kind.
  get_directory_property(definitions COMPILE_DEFINITIONS)
  list(TRANSFORM definitions PREPEND -D)
  list(APPEND flags ${definitions})
  foreach(arch IN LISTS SLUICE_CUDA_ARCHITECTURES)
    string(REGEX MATCH "^[0-9]+a?" number ${arch})
    set(code sm_${number})
    if(arch MATCHES "virtual")
      set(code compute_${number})
    endif()
    list(APPEND flags -gencode=arch=compute_${number},code=${code})
  endforeach()
  set(objects "")
  foreach(file IN LISTS ARGN)
    get_filename_component(name ${file} NAME_WE)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/cuda_${name}.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${SLUICE_NVCC} ${flags}
        -ccbin ${CMAKE_CXX_COMPILER} -I${PROJECT_SOURCE_DIR}
        -MD -MF ${object}.d -c ${CMAKE_CURRENT_SOURCE_DIR}/${file} -o ${object}
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${file} DEPFILE ${object}.d
      COMMENT "Building CUDA object ${file}" VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  set(${out} ${objects} PARENT_SCOPE)
endfunction()

if(SLUICE_WITH_CUDA)
  message(STATUS "CUDA backend: by ${SLUICE_NVCC}")
else()
  message(STATUS "CUDA backend: left out (nvcc: '${SLUICE_NVCC}')")
endif()
