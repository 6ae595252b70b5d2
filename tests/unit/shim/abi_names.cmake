# Reads NVIDIA's nccl.h and writes shim_abi_names.h: the names that it defines, as lists for the
# compile-time comparison in shim_abi_nvidia_test.cc. What is compared is therefore all that the
# installed header has, not what somebody remembered to list.

# harmonaize_abi_list(OUTPUT_VARIABLE LIST_NAME names...): "#define LIST_NAME(X) X(a) X(b) ..."
function(harmonaize_abi_list output list_name)
  set(items ${ARGN})
  list(REMOVE_DUPLICATES items)
  list(TRANSFORM items REPLACE "(.+)" "X(\\1)")
  list(JOIN items " \\\n  " body)
  set(${output} "#define ${list_name}(X) \\\n  ${body}\n\n" PARENT_SCOPE)
endfunction()

function(harmonaize_write_abi_names header output)
  file(READ "${header}" text)
  string(REGEX REPLACE "/\\*([^*]|\\*+[^*/])*\\*+/" " " text "${text}")
  string(REGEX REPLACE "//[^\n]*" " " text "${text}")

  string(REGEX MATCHALL "nccl[A-Za-z0-9_]+[ ]*=" enumerators "${text}")
  list(TRANSFORM enumerators REPLACE "[ ]*=" "")
  string(REGEX MATCHALL "p?nccl[A-Z][A-Za-z]*[ ]*\\(" functions "${text}")
  list(TRANSFORM functions REPLACE "[ ]*\\(" "")
  string(REGEX MATCHALL "#define NCCL_[A-Z_]+" macros "${text}")
  list(TRANSFORM macros REPLACE "#define " "")
  list(REMOVE_ITEM macros NCCL_H_)
  # What is no integer is compared by hand.
  set(integers ${macros})
  list(REMOVE_ITEM integers NCCL_VERSION NCCL_SUFFIX NCCL_COMM_NULL NCCL_CONFIG_UNDEF_PTR
       NCCL_UNDEF_FLOAT NCCL_CONFIG_INITIALIZER NCCL_SIM_INFO_INITIALIZER)

  harmonaize_abi_list(enumerator_list HARMONAIZE_ABI_ENUMERATORS ${enumerators})
  harmonaize_abi_list(function_list HARMONAIZE_ABI_FUNCTIONS ${functions})
  harmonaize_abi_list(integer_list HARMONAIZE_ABI_INTEGER_MACROS ${integers})

  list(REMOVE_DUPLICATES functions)
  set(renames ${functions})
  list(TRANSFORM renames REPLACE "(.+)" "#define \\1 nvidia_\\1")
  list(JOIN renames "\n" renames)
  set(restores ${functions})
  list(TRANSFORM restores REPLACE "(.+)" "#undef \\1")
  list(JOIN restores "\n" restores)
  set(forgets ${macros} NCCL_H_)
  list(TRANSFORM forgets REPLACE "(.+)" "#undef \\1")
  list(JOIN forgets "\n" forgets)

  set(lists "${enumerator_list}${function_list}${integer_list}")
  file(CONFIGURE OUTPUT "${output}/shim_abi_names.h"
       CONTENT "// Generated from @header@\n#pragma once\n\n@lists@" @ONLY)
  file(CONFIGURE OUTPUT "${output}/shim_abi_rename.h" CONTENT "@renames@\n" @ONLY)
  file(CONFIGURE OUTPUT "${output}/shim_abi_restore.h" CONTENT "@restores@\n" @ONLY)
  file(CONFIGURE OUTPUT "${output}/shim_abi_forget.h" CONTENT "@forgets@\n" @ONLY)
endfunction()
