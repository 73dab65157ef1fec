#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64 // as SQLite has it
#include "writeback.h"

#ifdef __linux__

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vfs.h" // of driversym

enum {
	FILES = 65536,
	CHUNK = 256 * 1024, // bytes; a disk is busy for longer with them than the call takes
	PAGE = 4096,        // of the page cache, at least
};

typedef ssize_t (*pwrite_call)(int, const void *, size_t, off_t);

static pwrite_call plain_pwrite;

// What was written to each file and not begun yet. It belongs to the connection that
// has the file open; after another one got its descriptor it is wrong, which only
// begins something too early or too late.
static struct {
	off_t from, to;
	size_t bytes;
} behind[FILES];

static unsigned long begun;

// begin has the disk write what the file's part has in memory, and does not wait for
// that. Whether it succeeds the next fsync tells, which waits for it.
static void begin(int fd, off_t from, off_t to) {
	struct stat st;
	if (from < to && fstat(fd, &st) == 0 && st.st_nlink > 0 && // one without a name is temporary
		sync_file_range(fd, from, to - from, SYNC_FILE_RANGE_WRITE) == 0)
		__atomic_add_fetch(&begun, 1, __ATOMIC_RELAXED);
}

static ssize_t watched_pwrite(int fd, const void *buf, size_t n, off_t at) {
	ssize_t got = plain_pwrite(fd, buf, n, at);
	if (fd < 0 || fd >= FILES || got != (ssize_t)n)
		return got;
	int before = errno;
	off_t end = at + (off_t)n;
	if (at < behind[fd].to || behind[fd].to == 0) { // the log from its start again, or the next checkpoint
		behind[fd].from = at;
		behind[fd].bytes = 0;
	}
	behind[fd].to = end;
	behind[fd].bytes += n;
	if (behind[fd].bytes >= CHUNK) {
		off_t whole = end - end % PAGE; // the last page may not be complete
		begin(fd, behind[fd].from, whole);
		behind[fd].from = whole;
		behind[fd].bytes = 0;
	}
	errno = before;
	return got;
}

int writeback_install(void *find) {
	return driversym_replace(find, "pwrite", (driversym_call)watched_pwrite, (driversym_call *)&plain_pwrite);
}

unsigned long writeback_begun(void) { return __atomic_load_n(&begun, __ATOMIC_RELAXED); }

#else

int writeback_install(void *find) { return 0; }
unsigned long writeback_begun(void) { return 0; }

#endif
