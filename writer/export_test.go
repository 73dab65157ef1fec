package writer

// Blocked returns how many callers wait for room in w's queue.
func Blocked(w *Writer) int {
	w.queue.mu.Lock()
	defer w.queue.mu.Unlock()
	return w.queue.blocked
}

// LimitLog sets how many statements of functions that share a savepoint are logged,
// for later batches; 0 is the default.
func LimitLog(c *Conn, limit int) { c.owner.batch.savepoint.limit = limit }

// ForgetDoubt makes functions share a savepoint again after one had failed.
func ForgetDoubt(c *Conn) { c.owner.doubt = 0 }

// Savepoint is what tests see of a batch's savepoint.
type Savepoint struct {
	Number uint64 // grows with each new one
	Logged int    // writes since, to be repeated after a failure
	Shared bool   // functions may share it
}

// SavepointOf returns the savepoint of tx's batch.
func SavepointOf(tx *Tx) Savepoint {
	s := &tx.w.batch.savepoint
	return Savepoint{tx.conn.log, len(s.log), s.share}
}

// Depth ends every savepoint that SQLite has open and returns how many there were.
// Nothing that was written before can be undone by itself afterwards.
func Depth(tx *Tx) (depth int) {
	for tx.conn.run(tx.w.sql.release) == nil {
		depth++
	}
	tx.w.batch.savepoint.state, tx.protected = noSavepoint, false
	tx.w.clearLog()
	return depth
}

// SpoilLog changes what is known of the first write of tx's batch: its integers, by
// delta, and how many rows it changed.
func SpoilLog(tx *Tx, delta, changed int64) {
	e := &tx.w.batch.savepoint.log[0]
	e.values[0] += delta
	e.changed += changed
}

// Cached returns how many statements the writer's connection keeps prepared.
func Cached(tx *Tx) int { return tx.conn.prepared }

// Repeatable is repeatable.
func Repeatable(sql string) bool { return repeatable(sql) }
