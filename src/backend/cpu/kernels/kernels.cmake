# Hand-written kernels are compiled once for each variant of the machine; cpuid picks at run time.
set(GEX_KERNEL_FLAGS -O3 -ffp-contract=fast -fno-math-errno -fno-trapping-math -Wno-psabi)
set(GEX_KERNEL_DIR ${CMAKE_SOURCE_DIR}/src/backend/cpu/kernels)
set_source_files_properties(${GEX_KERNEL_DIR}/variant_baseline.cpp PROPERTIES
  COMPILE_OPTIONS "${GEX_KERNEL_FLAGS}")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  set_source_files_properties(${GEX_KERNEL_DIR}/variant_avx2.cpp PROPERTIES
    COMPILE_OPTIONS "${GEX_KERNEL_FLAGS};-mavx2;-mfma;-mf16c")
  set_source_files_properties(${GEX_KERNEL_DIR}/variant_avx512.cpp PROPERTIES
    COMPILE_OPTIONS "${GEX_KERNEL_FLAGS};-mavx2;-mfma;-mf16c;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl")
  set_source_files_properties(${GEX_KERNEL_DIR}/variant_avx512_bf16.cpp PROPERTIES
    COMPILE_OPTIONS "${GEX_KERNEL_FLAGS};-mavx2;-mfma;-mf16c;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512bf16")
  set_source_files_properties(${GEX_KERNEL_DIR}/variants.cpp ${GEX_KERNEL_DIR}/bf16_pairs.cpp PROPERTIES
    COMPILE_DEFINITIONS GEX_KERNELS_X86)
else()
  list(FILTER GEX_SOURCES EXCLUDE REGEX "src/backend/cpu/kernels/variant_avx")
endif()
