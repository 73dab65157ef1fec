// What C code of other packages needs to replace the system calls of SQLite's unix VFS.
// The address of sqlite3_vfs_find comes from driversym.Find. Before the driver has
// opened its first connection there is no VFS.

#include <stddef.h>

// The parts of a VFS that are used, up to its version 3, which are stable:
// https://www.sqlite.org/c3ref/vfs.html
typedef void (*driversym_call)(void);
typedef struct driversym_vfs driversym_vfs;
struct driversym_vfs {
	int version, file_size, max_path;
	driversym_vfs *next;
	const char *name;
	void *data;
	void (*methods[13])(void);
	int (*set_system_call)(driversym_vfs *, const char *, driversym_call);
	driversym_call (*get_system_call)(driversym_vfs *, const char *);
};

// driversym_replace has SQLite call ours instead of the system call of that name, for
// the whole program, and returns whether it does. *plain is what it called before. It
// may be called again.
static int driversym_replace(void *find, const char *name, driversym_call ours, driversym_call *plain) {
	driversym_vfs *v = ((driversym_vfs * (*)(const char *))find)("unix");
	if (v == NULL || v->version < 3)
		return 0;
	driversym_call before = v->get_system_call(v, name);
	if (before == ours)
		return 1;
	*plain = before; // first: from then on another thread may be in ours
	return *plain != NULL && v->set_system_call(v, name, ours) == 0;
}
