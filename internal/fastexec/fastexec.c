#include "fastexec.h"

#include <stddef.h>
#include <string.h>

typedef struct sqlite3 sqlite3;
typedef struct sqlite3_stmt sqlite3_stmt;

// The parts of SQLite's interface that are used, which is stable:
// https://www.sqlite.org/c3ref/funclist.html
enum { SQLITE_OK = 0, SQLITE_ROW = 100, SQLITE_DONE = 101 };

#define FUNCTIONS(X)                                   \
	X(int, bind_int64, (sqlite3_stmt *, int, int64_t)) \
	X(int, step, (sqlite3_stmt *))                     \
	X(int, reset, (sqlite3_stmt *))                    \
	X(int, clear_bindings, (sqlite3_stmt *))           \
	X(sqlite3 *, db_handle, (sqlite3_stmt *))          \
	X(int, changes, (sqlite3 *))

#define FIELD(result, name, arguments) result(*name) arguments;
#define NAME(result, name, arguments) "sqlite3_" #name,

static struct {
	FUNCTIONS(FIELD)
} sq;

static const char *const names[] = {FUNCTIONS(NAME) NULL};

_Static_assert(sizeof sq == sizeof names - sizeof *names, "a function pointer is not like any other pointer");

const char *fastexec_function(int i) { return names[i]; }

void fastexec_set(int i, void *address) { memcpy((char *)&sq + i * sizeof address, &address, sizeof address); }

static uint64_t outcome(int statement, int code) { return (uint64_t)statement << 16 | (code & 0xffff); }

// plain runs a statement without parameters. It returns SQLITE_OK or a failure.
static int plain(sqlite3_stmt *stmt) {
	int rc = sq.step(stmt);
	sq.reset(stmt); // repeats a failure of the step
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

uint64_t fastexec_run(uintptr_t release, uintptr_t savepoint, uintptr_t statement, int n,
	int64_t v1, int64_t v2, int64_t v3, int64_t v4) {
	const int64_t values[FASTEXEC_PARAMETERS] = {v1, v2, v3, v4};
	sqlite3_stmt *stmt = (sqlite3_stmt *)statement;
	int rc = SQLITE_OK;
	if (release != 0 && (rc = plain((sqlite3_stmt *)release)) != SQLITE_OK) {
		return outcome(FASTEXEC_RELEASE, rc);
	}
	if (savepoint != 0 && (rc = plain((sqlite3_stmt *)savepoint)) != SQLITE_OK) {
		return outcome(FASTEXEC_SAVEPOINT, rc);
	}
	for (int i = 0; i < n; i++) {
		if ((rc = sq.bind_int64(stmt, i + 1, values[i])) != SQLITE_OK) {
			sq.clear_bindings(stmt);
			return outcome(FASTEXEC_STATEMENT, rc);
		}
	}
	rc = sq.step(stmt);
	sq.reset(stmt); // ends a RETURNING, whose rows count as changed only then
	uint64_t changes = (uint32_t)sq.changes(sq.db_handle(stmt));
	sq.clear_bindings(stmt);
	if (rc == SQLITE_ROW || rc == SQLITE_DONE) {
		rc = SQLITE_OK;
	}
	return changes << 32 | outcome(FASTEXEC_STATEMENT, rc);
}
