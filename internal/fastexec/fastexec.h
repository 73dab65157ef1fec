#include <stdint.h>

// What a call came to: the primary facts in one word, as a call from Go is fastest
// when nothing has to be written back.
//
//   bits 0-15   SQLite's extended result code
//   bits 16-17  which statement it is of
//   bits 32-63  rows changed
enum { FASTEXEC_STATEMENT, FASTEXEC_RELEASE, FASTEXEC_SAVEPOINT };

enum { FASTEXEC_PARAMETERS = 4 };

// fastexec_function and fastexec_set name and set what is called.
const char *fastexec_function(int i);
void fastexec_set(int i, void *address);

// fastexec_run runs release and savepoint, unless they are 0, and then stmt with the
// first n of the values as its parameters. Each is reset, and stmt's bindings are
// cleared.
uint64_t fastexec_run(uintptr_t release, uintptr_t savepoint, uintptr_t stmt, int n,
	int64_t v1, int64_t v2, int64_t v3, int64_t v4);
