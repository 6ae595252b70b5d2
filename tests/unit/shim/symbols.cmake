# cmake -DLIBRARY= -DEXPORTS= -DLISTS= -DSTOCK= -DNM= -DREADELF= -DSANITIZER= -P shim_symbols.cmake
# Fails unless LIBRARY exports exactly what the lists in EXPORTS say, LISTS being those of this library
# alone; they must hold what the stock library STOCK exports (if there is one); unless ncclX is weak
# and pncclX is not; or when it needs any library that a program does not have anyway.

function(run output)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  set(${output} "${text}" PARENT_SCOPE)
endfunction()

# The defined dynamic symbols of a library as "T name" items.
function(symbols_of library output)
  run(text "${NM}" -D --defined-only "${library}")
  string(REGEX MATCHALL "[A-Za-z] [A-Za-z0-9_]+[^\n]*" lines "${text}")
  list(TRANSFORM lines REPLACE "@.*" "")
  set(${output} "${lines}" PARENT_SCOPE)
endfunction()

symbols_of("${LIBRARY}" ours)
set(our_names ${ours})
list(TRANSFORM our_names REPLACE "^. " "")

set(expected "")
foreach(list_file nccl-2.28.9.txt nccl-2.30.txt nccl-2.32.txt harmonaize.txt ${LISTS})
  file(STRINGS "${EXPORTS}/${list_file}" names REGEX "^[a-z]")
  list(APPEND expected ${names})
endforeach()
if(STOCK)
  symbols_of("${STOCK}" stock)
  list(TRANSFORM stock REPLACE "^. " "")
  list(FILTER stock INCLUDE REGEX "^p?nccl")
  list(APPEND expected ${stock})
  list(REMOVE_DUPLICATES expected)
endif()

set(missing ${expected})
list(REMOVE_ITEM missing ${our_names})
set(extra ${our_names})
list(REMOVE_ITEM extra ${expected})
set(strong ${ours})
list(FILTER strong INCLUDE REGEX "^[^W] nccl")
list(REMOVE_ITEM strong "T ncclResetDebugInitInternal")
set(weak ${ours})
list(FILTER weak INCLUDE REGEX "^[^T] pnccl")

run(dynamic "${READELF}" -d "${LIBRARY}")
string(REGEX MATCHALL "Shared library: .[^]]+" needed "${dynamic}")
list(TRANSFORM needed REPLACE "Shared library: ." "")
list(FILTER needed EXCLUDE REGEX "^(libc|libm|ld-linux[a-z0-9_-]*)\\.so\\.[0-9]$")
if(SANITIZER)
  set(needed "")
endif()
if(NOT dynamic MATCHES "soname: .libnccl\\.so\\.2.")
  list(APPEND missing "the SONAME libnccl.so.2")
endif()

foreach(what missing extra strong weak needed)
  if(${what})
    message(SEND_ERROR "${LIBRARY}: ${what}: ${${what}}")
  endif()
endforeach()
list(LENGTH our_names count)
message(STATUS "${LIBRARY}: ${count} symbols")
