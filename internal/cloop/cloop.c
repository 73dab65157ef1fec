#include "cloop.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct sqlite3_stmt sqlite3_stmt;
typedef int commit_hook(void *, sqlite3 *, const char *, int);

// SQLite's header is inside the driver's package, where no other package can
// include it. These are the parts of it that are used; its interface is stable:
// https://www.sqlite.org/c3ref/funclist.html
enum {
	SQLITE_OK = 0,
	SQLITE_BUSY = 5,
	SQLITE_LOCKED = 6,
	SQLITE_ROW = 100,
	SQLITE_DONE = 101,
	SQLITE_OPEN_READWRITE = 0x00000002,
	SQLITE_OPEN_NOMUTEX = 0x00008000,
	SQLITE_OPEN_EXRESCODE = 0x02000000,
	SQLITE_PREPARE_PERSISTENT = 1,
	SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE = 1006,
	SQLITE_CHECKPOINT_PASSIVE = 0,
	SQLITE_CHECKPOINT_RESTART = 2,
	SQLITE_CHECKPOINT_TRUNCATE = 3,
};

#define SYMBOLS(X)                                                                      \
	X(int, open_v2, (const char *, sqlite3 **, int, const char *))                      \
	X(int, close, (sqlite3 *))                                                          \
	X(int, db_config, (sqlite3 *, int, ...))                                            \
	X(int, busy_timeout, (sqlite3 *, int))                                              \
	X(int, prepare_v3, (sqlite3 *, const char *, int, unsigned, sqlite3_stmt **, const char **)) \
	X(int, bind_int64, (sqlite3_stmt *, int, int64_t))                                  \
	X(int, step, (sqlite3_stmt *))                                                      \
	X(int, reset, (sqlite3_stmt *))                                                     \
	X(int, finalize, (sqlite3_stmt *))                                                  \
	X(const unsigned char *, column_text, (sqlite3_stmt *, int))                        \
	X(int, changes, (sqlite3 *))                                                        \
	X(int64_t, total_changes64, (sqlite3 *))                                            \
	X(int, get_autocommit, (sqlite3 *))                                                 \
	X(const char *, errmsg, (sqlite3 *))                                                \
	X(void *, wal_hook, (sqlite3 *, commit_hook *, void *))                             \
	X(int, wal_checkpoint_v2, (sqlite3 *, const char *, int, int *, int *))

#define FIELD(result, name, arguments) result(*name) arguments;
#define NAME(result, name, arguments) "sqlite3_" #name,

static struct {
	SYMBOLS(FIELD)
} sq;

static const char *const names[] = {SYMBOLS(NAME)};

enum { SYMBOL_COUNT = sizeof names / sizeof names[0] };

_Static_assert(sizeof sq == SYMBOL_COUNT * sizeof(void *), "a function pointer is not like any other pointer");

int cloop_symbol_count(void) { return SYMBOL_COUNT; }

const char *cloop_symbol_name(int i) { return names[i]; }

void cloop_symbol_set(int i, void *address) {
	memcpy((char *)&sq + i * sizeof address, &address, sizeof address);
}

static void copy(char text[CLOOP_TEXT], const char *from) {
	snprintf(text, CLOOP_TEXT, "%s", from != NULL ? from : "");
}

int cloop_open(const char *path, sqlite3 **db) {
	int rc = sq.open_v2(path, db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
	if (rc == SQLITE_OK) {
		sq.wal_hook(*db, NULL, NULL); // SQLite's own checkpoints are such a hook
	}
	return rc;
}

int cloop_close(sqlite3 *db, int keep_wal) {
	if (db != NULL && keep_wal) {
		sq.db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	}
	return sq.close(db);
}

int cloop_busy_timeout(sqlite3 *db, int ms) { return sq.busy_timeout(db, ms); }

int cloop_truncate(sqlite3 *db) {
	return sq.wal_checkpoint_v2(db, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
}

void cloop_message(sqlite3 *db, char text[CLOOP_TEXT]) { copy(text, sq.errmsg(db)); }

int cloop_query(sqlite3 *db, const char *sql, char text[CLOOP_TEXT]) {
	sqlite3_stmt *stmt = NULL;
	const char *tail = NULL;
	int rc = sq.prepare_v3(db, sql, -1, 0, &stmt, &tail);
	if (rc != SQLITE_OK) {
		return rc;
	}
	if (stmt == NULL || tail[strspn(tail, " \t\r\n;")] != '\0') {
		sq.finalize(stmt);
		return CLOOP_NOT_ONE;
	}
	text[0] = '\0';
	while ((rc = sq.step(stmt)) == SQLITE_ROW) {
		copy(text, (const char *)sq.column_text(stmt, 0));
	}
	sq.finalize(stmt);
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int64_t now_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// The checkpoint policy is the writer's, number by number: checkpoint.go in package
// writer and package internal/wal say why each is so.
enum { RESTART_FACTOR = 4, CHECKPOINT_BUSY_MS = 50, SALT = 8, SALT_OFFSET = 16 };

static const int64_t restart_pause_ns = 1000000000, max_restart_pause_ns = 30000000000;

struct run {
	sqlite3 *db;
	const cloop_config *config;
	const int64_t *from, *to, *amount;
	cloop_result *out;
	sqlite3_stmt *begin, *savepoint, *update, *release, *commit, *rollback;

	// The log, as wal in package writer.
	int64_t pages, backfilled, passive_at;
	int64_t limit; // the present one
	unsigned char salt[SALT];
	int64_t restart_at, pause;
};

// fail notes what went wrong, in the transfer i, before something else changes the
// connection's error.
static int fail(struct run *r, const char *op, int code, int64_t i) {
	r->out->op = op;
	r->out->code = code;
	r->out->transfer = i;
	copy(r->out->message, sq.errmsg(r->db));
	return code;
}

// read_salt reads the salt from the log's header, and leaves what is there when it
// cannot. SQLite keeps no lock on the log, so closing a descriptor of it drops none.
static void read_salt(const struct run *r, unsigned char salt[SALT]) {
	unsigned char bytes[SALT];
	int fd = open(r->config->wal, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return;
	}
	if (pread(fd, bytes, SALT, SALT_OFFSET) == SALT) {
		memcpy(salt, bytes, SALT);
	}
	close(fd);
}

// restarted tells whether the commit that left pages frames in the log started it
// anew, which only the salt shows when there are more than before.
static int restarted(const struct run *r, int64_t pages) {
	unsigned char salt[SALT];
	if (pages <= r->pages) {
		return 1;
	}
	if (r->pages == 0 || r->backfilled != r->pages) {
		return 0;
	}
	memcpy(salt, r->salt, SALT);
	read_salt(r, salt);
	return memcmp(salt, r->salt, SALT) != 0;
}

static int on_commit(void *arg, sqlite3 *db, const char *schema, int pages) {
	struct run *r = arg;
	(void)db;
	(void)schema; // nothing else is attached
	if (restarted(r, pages)) {
		r->backfilled = r->passive_at = 0;
	}
	r->pages = pages;
	return SQLITE_OK;
}

// adapt follows what checkpoints cost, as Limit.Took in package internal/wal does.
static void adapt(struct run *r, int64_t pages, int64_t took_ns) {
	const cloop_config *c = r->config;
	int64_t limit = r->limit;
	if (c->stall_ns == 0 || pages <= 0) {
		return;
	}
	if (took_ns > c->stall_ns) {
		int64_t fits = (int64_t)((double)pages * ((double)c->stall_ns / (double)took_ns));
		limit = fits < limit ? fits : limit;
		limit = limit > r->limit / 2 ? limit : r->limit / 2;
		r->limit = limit > c->checkpoint_least ? limit : c->checkpoint_least;
	} else if (took_ns < c->stall_ns - c->stall_ns / 4 && pages >= limit) {
		limit += limit / 4;
		r->limit = limit < c->checkpoint_most ? limit : c->checkpoint_most;
	}
}

static int checkpoint(struct run *r, int mode) {
	int frames = -1, done = -1;
	int waits = mode != SQLITE_CHECKPOINT_PASSIVE && r->config->busy_ms > CHECKPOINT_BUSY_MS;
	int64_t start = now_ns();
	if (waits) {
		sq.busy_timeout(r->db, CHECKPOINT_BUSY_MS);
	}
	int rc = sq.wal_checkpoint_v2(r->db, "main", mode, &frames, &done);
	int hindered = (rc & 0xff) == SQLITE_BUSY || (rc & 0xff) == SQLITE_LOCKED;
	if (rc != SQLITE_OK && !hindered) {
		fail(r, "checkpoint", rc, r->out->transfers);
	}
	if (waits) {
		sq.busy_timeout(r->db, r->config->busy_ms);
	}
	int64_t moved = 0;
	if (frames >= 0) {
		// TRUNCATE answers 0 when the log is empty already.
		moved = (frames == 0 ? r->pages : done) - r->backfilled;
		r->out->checkpoint_pages += moved > 0 ? moved : 0;
		r->pages = frames;
		r->backfilled = done;
		if (frames > 0 && done == frames) {
			read_salt(r, r->salt);
		}
	}
	int64_t took = now_ns() - start;
	r->out->checkpoints++;
	r->out->checkpoint_ns += took;
	if (rc == SQLITE_OK && done == frames && (mode == SQLITE_CHECKPOINT_PASSIVE || mode == r->config->checkpoint_mode)) {
		adapt(r, moved, took);
	}
	if (frames >= 0) {
		r->passive_at = frames + r->limit;
	}
	return rc;
}

// checkpoint_if_due returns an error only if the loop must end.
static int checkpoint_if_due(struct run *r) {
	int64_t most = RESTART_FACTOR * r->config->checkpoint_most;
	int64_t due = r->passive_at > r->limit ? r->passive_at : r->limit;
	if (most == 0 || (r->pages == r->backfilled && r->pages < most)) {
		return SQLITE_OK;
	}
	if (r->pages >= most && now_ns() >= r->restart_at) {
		if (checkpoint(r, SQLITE_CHECKPOINT_RESTART) == SQLITE_OK) {
			r->pause = restart_pause_ns;
			r->restart_at = 0;
		} else {
			r->restart_at = now_ns() + r->pause;
			r->pause = 2 * r->pause < max_restart_pause_ns ? 2 * r->pause : max_restart_pause_ns;
		}
	} else if (r->pages >= due) {
		checkpoint(r, r->config->checkpoint_mode);
	}
	return r->out->op != NULL ? r->out->code : SQLITE_OK;
}

// step runs a statement that returns no rows.
static inline int step(struct run *r, sqlite3_stmt *stmt, const char *op, int64_t i) {
	int rc = sq.step(stmt);
	if (rc != SQLITE_DONE) {
		fail(r, op, rc, i);
		sq.reset(stmt); // so that it cannot stand in the way of ROLLBACK
		return 1;
	}
	sq.reset(stmt); // repeats the outcome of the step
	return 0;
}

// add changes one account by delta.
static inline int add(struct run *r, int64_t id, int64_t delta, int64_t i) {
	sq.bind_int64(r->update, 1, delta); // can fail only for a wrong index, or while a statement runs
	sq.bind_int64(r->update, 2, id);
	if (step(r, r->update, "update", i)) {
		return 1;
	}
	if (sq.changes(r->db) != 1) {
		fail(r, "update", 0, i);
		r->out->account = id;
		return 1;
	}
	return 0;
}

// batch runs the transfers from first to before end in one transaction.
static int batch(struct run *r, int64_t first, int64_t end) {
	if (step(r, r->begin, "begin", first)) {
		return 1;
	}
	for (int64_t i = first; i < end; i++) {
		if (r->savepoint != NULL && step(r, r->savepoint, "savepoint", i)) {
			return 1;
		}
		if (add(r, r->from[i], -r->amount[i], i) || add(r, r->to[i], r->amount[i], i)) {
			return 1;
		}
		if (r->release != NULL && step(r, r->release, "release", i)) {
			return 1;
		}
	}
	return step(r, r->commit, "commit", first);
}

static int prepare(struct run *r, const char *sql, sqlite3_stmt **stmt) {
	int rc = sq.prepare_v3(r->db, sql, -1, SQLITE_PREPARE_PERSISTENT, stmt, NULL);
	return rc == SQLITE_OK ? rc : fail(r, "prepare", rc, 0);
}

static int prepare_all(struct run *r) {
	if (prepare(r, "BEGIN IMMEDIATE", &r->begin) || prepare(r, "COMMIT", &r->commit) ||
		prepare(r, "ROLLBACK", &r->rollback) ||
		prepare(r, "UPDATE account SET balance = balance + ?1 WHERE id = ?2", &r->update)) {
		return 1;
	}
	return r->config->savepoints &&
		   (prepare(r, "SAVEPOINT t", &r->savepoint) || prepare(r, "RELEASE t", &r->release));
}

void cloop_run(sqlite3 *db, const cloop_config *config, const int64_t *from, const int64_t *to,
	const int64_t *amount, const int32_t *cancel, cloop_result *out) {
	struct run r = {.db = db, .config = config, .from = from, .to = to, .amount = amount, .out = out,
		.limit = config->checkpoint_first, .pause = restart_pause_ns};
	memset(out, 0, sizeof *out);
	if (prepare_all(&r) == 0) {
		sq.wal_hook(db, on_commit, &r);
		int64_t start = now_ns();
		while (out->transfers < config->n && !__atomic_load_n(cancel, __ATOMIC_RELAXED)) {
			int64_t left = config->n - out->transfers;
			int64_t size = left < config->batch ? left : config->batch;
			int64_t before = sq.total_changes64(db);
			if (batch(&r, out->transfers, out->transfers + size) != 0) {
				break;
			}
			out->transfers += size;
			out->changed += sq.total_changes64(db) - before;
			out->commits++;
			if (left > size && checkpoint_if_due(&r) != SQLITE_OK) {
				break;
			}
		}
		out->elapsed_ns = now_ns() - start;
		sq.wal_hook(db, NULL, NULL);
	}
	out->checkpoint_limit = r.limit;
	if (r.rollback != NULL && !sq.get_autocommit(db)) {
		sq.step(r.rollback);
	}
	sqlite3_stmt *all[] = {r.begin, r.savepoint, r.update, r.release, r.commit, r.rollback};
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		sq.finalize(all[i]);
	}
}
