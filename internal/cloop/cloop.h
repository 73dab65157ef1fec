// The loop's C side: see cloop.go for what it is for and what holds.

#ifndef TPSSIM_CLOOP_H
#define TPSSIM_CLOOP_H

#include <stdint.h>

typedef struct sqlite3 sqlite3;

// The SQLite functions that are used. Nothing else may be called before each was
// set.
int cloop_symbol_count(void);
const char *cloop_symbol_name(int i);
void cloop_symbol_set(int i, void *address);

#define CLOOP_TEXT 256

// These return SQLite's extended result code. After a failed cloop_open a handle
// may be there all the same, and must be closed.
int cloop_open(const char *path, sqlite3 **db);
int cloop_close(sqlite3 *db, int keep_wal);
int cloop_busy_timeout(sqlite3 *db, int ms);
int cloop_truncate(sqlite3 *db);

// cloop_query runs the one statement sql to its end and copies the first column of
// its last row, cut to CLOOP_TEXT-1 bytes, "" without rows. CLOOP_NOT_ONE means that
// sql holds more than one, or none.
#define CLOOP_NOT_ONE (-1)
int cloop_query(sqlite3 *db, const char *sql, char text[CLOOP_TEXT]);

// cloop_message copies the text of the connection's last error.
void cloop_message(sqlite3 *db, char text[CLOOP_TEXT]);

typedef struct {
	int64_t n;                // transfers
	int64_t batch;            // of them in one COMMIT, at least 1
	int savepoints;           // not 0: one for each transfer
	int busy_ms;              // the connection's busy timeout
	int64_t checkpoint_most;  // frames in the log above which a checkpoint is due at the latest; 0: never
	int64_t checkpoint_first; // frames above which one is due until it is known what they cost
	int64_t checkpoint_least; // the least that this may become
	int64_t stall_ns;         // how long one is to take; 0: the limit stays what it is
	int checkpoint_mode;      // SQLITE_CHECKPOINT_...
	const char *wal;          // the log's file
} cloop_config;

typedef struct {
	int64_t elapsed_ns;
	int64_t transfers, commits, changed; // committed
	int64_t checkpoints, checkpoint_ns, checkpoint_pages;
	int64_t checkpoint_limit; // frames above which the next checkpoint would be due

	// Why it ended early, if op is not NULL.
	const char *op;
	int code;         // extended result code; 0: an UPDATE did not change exactly one row
	int64_t transfer; // that was run, or that its batch began with
	int64_t account;  // of that UPDATE
	char message[CLOOP_TEXT];
} cloop_result;

// cloop_run runs the loop until it is done, *cancel is not 0, or something fails.
// No transaction is open and no statement prepared afterwards.
void cloop_run(sqlite3 *db, const cloop_config *config, const int64_t *from, const int64_t *to,
	const int64_t *amount, const int32_t *cancel, cloop_result *result);

#endif
