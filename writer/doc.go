// Package writer gives a Go program one SQLite writer that thousands of
// goroutines share.
//
// SQLite admits one writer at a time. Instead of letting connections fight for
// the lock, a [Writer] owns the only read-write connection on one goroutine.
// Callers hand it functions; it runs what has queued up inside one SQLite
// transaction, where the failure of one undoes its own changes only, commits once for
// all of them, and then tells each caller how its own function ended. One fsync carries
// a whole batch, so full durability costs little when many callers wait.
//
//	w, err := writer.Open(ctx, "bank.db", writer.Options{})
//	...
//	err = w.Do(ctx, func(tx *writer.Tx) error {
//		if _, err := tx.Exec("UPDATE account SET balance = balance - ? WHERE id = ?", 10, from); err != nil {
//			return err
//		}
//		_, err := tx.Exec("UPDATE account SET balance = balance + ? WHERE id = ?", 10, to)
//		return err
//	})
//
// # The contract
//
//  1. [Writer.Do] runs fn at most once (but see [SavepointOnFailure]), on the
//     writer goroutine, in the order in which requests entered the queue, isolated
//     as by a savepoint of its own: when it fails, what it did is undone and
//     nothing else. It returns nil only after the batch's COMMIT
//     succeeded: the change is then as durable as the connection's synchronous
//     setting makes it. A [Writer.View] that starts after Do returned sees it.
//  2. Nobody is told anything before the outcome of COMMIT is known, an error or
//     panic of its own included: an answer such as "funds are short" may rest on a
//     batch-mate's change that is not committed yet. If COMMIT fails, everyone
//     whose fn ran gets the [*BatchError].
//  3. Otherwise fn's own error comes back unwrapped. Only its changes are undone;
//     its batch-mates are untouched. A panic in fn, or runtime.Goexit (as
//     t.FailNow calls it), becomes a [*PanicError] for its caller and is otherwise
//     the same; the writer goes on.
//  4. Some errors make SQLite roll the whole transaction back by itself (a full
//     disk, an I/O error, an interrupted write, ON CONFLICT ROLLBACK). Tx looks
//     for that after every failed statement. It is then poisoned: each further
//     statement of this fn returns [ErrTxAborted] and does not reach SQLite, where
//     it would run in autocommit mode and become durable by itself. Everyone whose
//     fn had run gets a [*BatchError] with Op "abort"; batch-mates that had not
//     started move to the next batch.
//  5. BEGIN comes first, then just before each fn one compare-and-swap decides
//     between "taken" and "abandoned". A ctx that ends while its request waits (in
//     the queue, behind batch-mates or while BEGIN waits for a lock) means that fn
//     never ran and never will. Once taken, Do waits for the outcome and returns
//     it, whatever becomes of ctx. A ctx that has ended already and a closed
//     writer are seen before anything is queued.
//  6. When BEGIN is refused, because another process holds the lock for longer
//     than the busy timeout, everyone in the batch gets a [*BatchError] with Op
//     "begin": nothing ran, and it is safe to try again.
//  7. When COMMIT fails, everyone in the batch gets a [*BatchError] with Op
//     "commit", and what SQLite left open is rolled back. After an I/O error or a
//     full disk the outcome is in doubt (InDoubt is set): the commit record may be
//     in the file although it could not be synced. SQLITE_IOERR, SQLITE_CORRUPT
//     and SQLITE_NOTADB at COMMIT, an [Writer.Exclusive] function's included, or at
//     a checkpoint stop the writer for good ([ErrFailed]): an fsync that succeeds
//     after one that failed proves nothing.
//     Open the database again to learn what it holds.
//  8. The queue is bounded ([Options.QueueLen]). When it is full, Do blocks until
//     there is room, ctx ends or the writer closes; with [Options.FailWhenFull] it
//     returns [ErrQueueFull] at once. Only the writer frees places, those of
//     abandoned requests too.
//  9. [Writer.Shutdown] and [Writer.Close] refuse new work with [ErrClosed],
//     finish everything accepted, commit, checkpoint, and close the readers first
//     and the writer last. They are idempotent, safe beside Do, and leave no
//     goroutine.
//  10. Exactly one connection writes and checkpoints, on the writer goroutine,
//     checkpoints between batches; no caller waits for one to be told how its
//     function ended. [Open] takes a
//     lock file beside the database; a second writer, in this process or another,
//     gets [ErrInUse]. Readers are read-only and never checkpoint. (SQLite up to
//     3.51.2 can corrupt a WAL database when one connection checkpoints while
//     another resets the WAL; one connection for both rules that out.)
//  11. SQLite's own automatic checkpoint is off. When the WAL passes its limit, which
//     follows how long checkpoints held the writer ([Checkpoint.Stall]), the writer
//     runs a PASSIVE checkpoint; far above it, a RESTART with a short busy timeout
//     and with back-off, so that neither overlapping readers let the WAL grow
//     without end nor one long reader stalls the writer.
//  12. A batch takes what is queued, and what comes while it runs: it ends when nothing
//     waits, at [Options.MaxBatch] functions, or when it has run for
//     [Options.MaxBatchTime]. A request that was alone at its begin is committed
//     alone. With [Options.BatchWindow] a batch waits that long after its first
//     request for more to come; without, it never waits, but lets goroutines that are
//     ready to run queue their requests first, so that a burst forms large batches on
//     one CPU and on many.
//  13. [Options.Savepoints] chooses the isolation: [SavepointEach],
//     [SavepointNone] or [SavepointOnFailure].
//  14. When fn ends its statements are reset before its savepoint is released: no
//     open cursor and no unfinished RETURNING survives it. A RELEASE or ROLLBACK
//     TO that fails aborts the batch as in 4. The same SQL, asked for while a
//     statement of that text is in use, gets a second statement.
//  15. Transaction control (BEGIN, COMMIT, END, ROLLBACK, SAVEPOINT, RELEASE,
//     ATTACH, DETACH, PRAGMA) through a Tx returns [ErrTxControl] when prepared. A
//     Tx used after its fn returned gives [ErrTxDone]. Do with [Tx.Context] inside
//     fn returns [ErrNested] instead of waiting for itself.
//  16. A violated deferred constraint shows at COMMIT only. The driver does not
//     expose SQLite's counter of such violations, so it cannot be charged to its
//     own transaction: the batch fails at COMMIT, is rolled back, and everyone in
//     it gets the [*BatchError] with SQLITE_CONSTRAINT. Prefer immediate
//     constraints.
//  17. [Options.TxTimeout] interrupts a statement that runs too long and refuses
//     the fn's later ones with [ErrTxTimeout]. Go code cannot be interrupted:
//     [Stats] and the log name the function that holds the writer and for how
//     long.
//  18. Nothing is allocated for a statement on the [Stmt] path, and each SQL text
//     is prepared once. The writer goroutine is not locked to an OS thread: that
//     would turn each hand-off between goroutines into a thread switch, and SQLite
//     does not need it.
//  19. [Writer.Stats] returns a value whose counters only grow; [Stats.Sub] gives
//     an interval.
//  20. With [Options.Prefetch] the caller of [Writer.DoCall] may read what its fn
//     needs ([Call.Touch]) before the request enters the queue, on read-only
//     connections kept for that. Nothing of the above changes: the order is that of
//     the queue, and who is refused or whose ctx ends meanwhile gets the same error.
//
// # What it is not
//
// Do takes a [*Tx], not a database/sql transaction: code generated by sqlc or
// written for an ORM cannot run inside it. fn runs on the writer goroutine, so
// everything it waits for, everyone waits for. And a batch is one SQLite
// transaction: two of its functions see each other's changes before they are
// durable, though no caller ever learns of a change that was not.
//
// It is not alone with its database in what it does to SQLite. On Linux [Open] replaces
// system calls of SQLite's unix VFS for the whole program: whoever writes 256 KiB of
// a file has the disk begin with them before the sync, and with [Options.Prefetch] opening
// and reading files go through here as well. What SQLite syncs, and when, does
// not change.
//
// # Why this shape
//
// A goroutine for each connection of a pool was rejected because SQLite's lock is
// not fair and its busy handler sleeps: writers starve under contention. A
// transaction for each caller was rejected because a commit costs an fsync.
// Acknowledging before COMMIT was rejected because it tells callers things that
// may never become true.
package writer
