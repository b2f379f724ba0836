# libgex_grpc: `gex serve --grpc-port`. Built where Debian's libgrpc++-dev, protobuf-compiler and
# protobuf-compiler-grpc, or the like, are found; the command opens it on request and is not linked with it.
option(GEX_GRPC "Build libgex_grpc, the gRPC side of gex serve, where gRPC is found" ON)
if(GEX_GRPC AND NOT SKBUILD AND NOT CMAKE_CROSSCOMPILING AND TARGET gex_tool)
  find_program(GEX_PROTOC protoc)
  find_program(GEX_GRPC_PLUGIN grpc_cpp_plugin)
  find_library(GEX_GRPC_LIBRARY grpc++)
  find_library(GEX_GPR_LIBRARY gpr)
  find_library(GEX_PROTOBUF_LIBRARY protobuf)
  find_path(GEX_GRPC_INCLUDE grpcpp/grpcpp.h)
  set(GEX_GRPC_PARTS ${GEX_PROTOC} ${GEX_GRPC_PLUGIN} ${GEX_GRPC_LIBRARY} ${GEX_GPR_LIBRARY} ${GEX_PROTOBUF_LIBRARY}
                     ${GEX_GRPC_INCLUDE})
  if(GEX_GRPC_PARTS MATCHES "NOTFOUND")
    message(STATUS "gRPC is not installed: gex serve speaks HTTP alone (libgrpc++-dev protobuf-compiler-grpc)")
  else()
    set(folder ${CMAKE_BINARY_DIR}/grpc)
    file(MAKE_DIRECTORY ${folder})
    set(proto ${CMAKE_SOURCE_DIR}/tools/serve_grpc/kserve.proto)
    set(generated ${folder}/kserve.pb.cc ${folder}/kserve.grpc.pb.cc)
    add_custom_command(OUTPUT ${generated} ${folder}/kserve.pb.h ${folder}/kserve.grpc.pb.h
      COMMAND ${GEX_PROTOC} -I ${CMAKE_SOURCE_DIR}/tools/serve_grpc --cpp_out=${folder} --grpc_out=${folder}
              --plugin=protoc-gen-grpc=${GEX_GRPC_PLUGIN} ${proto}
      DEPENDS ${proto} COMMENT "Writing the messages of the KServe v2 protocol" VERBATIM)
    # Theirs: without our warnings.
    add_library(gex_grpc_messages OBJECT ${generated})
    target_include_directories(gex_grpc_messages SYSTEM PUBLIC ${folder} ${GEX_GRPC_INCLUDE})
    target_compile_options(gex_grpc_messages PRIVATE -O1 -fvisibility=hidden)
    add_library(gex_grpc MODULE ${CMAKE_SOURCE_DIR}/tools/serve_grpc/requests.cpp
                                ${CMAKE_SOURCE_DIR}/tools/serve_grpc/server.cpp)
    target_compile_options(gex_grpc PRIVATE -O1 -fvisibility-inlines-hidden)
    target_include_directories(gex_grpc PRIVATE ${CMAKE_SOURCE_DIR}/tools)
    # The registry and the queues of the models are the command's.
    set_target_properties(gex_tool PROPERTIES ENABLE_EXPORTS ON)
    target_link_libraries(gex_grpc PRIVATE gex_options gex_grpc_messages gex_tool gex gex_core ${GEX_GRPC_LIBRARY}
                          ${GEX_GPR_LIBRARY} ${GEX_PROTOBUF_LIBRARY} pthread)
    set_target_properties(gex_grpc PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib BUILD_RPATH "$ORIGIN"
                          INSTALL_RPATH "$ORIGIN")
    install(TARGETS gex_grpc LIBRARY DESTINATION lib)
  endif()
endif()
