package writer

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/tailscale/sqlite/sqliteh"
)

// batch is the work at hand. It is data, not a call stack, because a function may
// end the writer goroutine with runtime.Goexit: the next goroutine then goes on
// from here.
type batch struct {
	reqs       []*request // without an outcome yet, in order
	pos        int        // the next of reqs to start
	ran        []*request // those whose function ended in the open transaction
	failed     int        // of these, functions that failed
	open       bool       // BEGIN succeeded
	savepoints bool       // each function has its own savepoint
	savepoint  savepoint  // what of that is open in SQLite
	begun      int64      // when the batch began
	clock      int64      // the last clock reading: the end of one step is the start of the next
	txs        []Tx       // not used yet; allocated in slabs, never used twice
	tx         *Tx        // the one that runs
	exited     error      // the outcome of a function that ended the goroutine
	statements uint64     // conn.statements that Stats knows or that are not of functions
}

// carefulBatches is how many batches use savepoints after one failed without, in
// SavepointOnFailure: failures seldom come alone.
const carefulBatches = 100

// loop is the writer goroutine.
func (w *Writer) loop() {
	finished := false
	defer func() {
		if !finished {
			go w.loop() // a function called Goexit; this goroutine is lost
		}
	}()
	for {
		if w.batch.pos == len(w.batch.reqs) && !w.fill() {
			break
		}
		w.runBatch()
	}
	finished = true
	w.finish()
}

// finish closes everything after the last batch.
func (w *Writer) finish() {
	w.watchStop()
	w.waking.Wait()
	why := w.failed()
	if why == nil {
		why = ErrClosed
	}
	w.readers.drain(why)
	w.backups.Lock()
	defer w.backups.Unlock()
	if w.failed() == nil {
		w.checkpoint(sqliteh.SQLITE_CHECKPOINT_PASSIVE)
	}
	w.closeErr = errors.Join(w.failed(), w.closeConns(), w.release())
	close(w.done)
}

// fill waits for work and takes it from the queue. It returns false when the
// queue is closed and empty.
func (w *Writer) fill() bool {
	b, q := &w.batch, w.queue
	clear(b.reqs)
	for {
		q.wait(1, nil)
		q.gather(w.opt.MaxBatch)
		if w.opt.BatchWindow > 0 {
			w.waitWindow()
		}
		reqs, closed := q.take(b.reqs[:0], w.opt.MaxBatch)
		b.reqs, b.pos = reqs, 0
		if len(reqs) > 0 {
			b.statements = w.conn.statements // Exclusive's are not counted
			b.savepoints = w.opt.Savepoints == SavepointEach
			if w.opt.Savepoints == SavepointOnFailure && w.careful > 0 {
				w.careful--
				b.savepoints = true
			}
			return true
		}
		if closed {
			return false
		}
	}
}

// waitWindow waits until BatchWindow has passed since the oldest request came, or
// a batch is full.
func (w *Writer) waitWindow() {
	left := w.opt.BatchWindow - time.Duration(Now()-w.queue.oldest())
	if left > 0 {
		timer := time.NewTimer(left)
		defer timer.Stop()
		w.queue.wait(w.opt.MaxBatch, timer.C)
	}
}

// runBatch runs what is left of the batch and commits it.
func (w *Writer) runBatch() {
	b := &w.batch
	if b.exited != nil {
		err := b.exited
		b.exited = nil
		w.end(b.reqs[b.pos], err)
	}
	for b.pos < len(b.reqs) || w.topUp() {
		r := b.reqs[b.pos]
		switch {
		case r.abandoned():
			b.pos++
		case w.failed() != nil:
			w.failRest(w.failed())
		case r.exclusive != nil:
			if r.take() {
				w.end(r, w.call(r))
			}
		case !b.open:
			w.begin()
		case w.timeIsUp():
			w.commit() // the rest makes the next batch
		case r.take():
			w.end(r, w.call(r))
		}
	}
	if b.open {
		w.commit()
	}
}

// topUp adds what was queued while the batch ran, so that it is answered by this
// COMMIT and not by the next. A request that is alone is not kept waiting for others.
func (w *Writer) topUp() bool {
	b := &w.batch
	room := w.opt.MaxBatch - len(b.ran)
	if !b.open || len(b.reqs) == 1 || room <= 0 || w.timeIsUp() {
		return false
	}
	b.reqs, _ = w.queue.take(b.reqs, room)
	return b.pos < len(b.reqs)
}

// timeIsUp reports whether the batch, of which a part has run, is to run no longer.
func (w *Writer) timeIsUp() bool {
	b := &w.batch
	return w.opt.MaxBatchTime >= 0 && len(b.ran) > 0 && b.clock-b.begun > int64(w.opt.MaxBatchTime)
}

// begin opens the batch's transaction. When that fails everyone left is told.
func (w *Writer) begin() {
	b := &w.batch
	b.begun = Now()
	if err := w.conn.run(w.sql.begin); err != nil {
		w.rollback()
		w.failRest(&BatchError{Op: "begin", Err: err})
		return
	}
	b.open = true
	if err := w.shareSavepoint(); err != nil {
		w.rollback()
		w.failRest(&BatchError{Op: "begin", Err: err})
		return
	}
	b.clock = Now()
}

// failRest ends every request that has not started with err.
func (w *Writer) failRest(err error) {
	b := &w.batch
	for ; b.pos < len(b.reqs); b.pos++ {
		if r := b.reqs[b.pos]; r.take() {
			r.finish(err)
		}
	}
}

// call runs one request's function. A panic comes back as its error. Goexit does
// not come back: the outcome is left in the batch.
func (w *Writer) call(r *request) (err error) {
	finished := false
	defer func() {
		if finished {
			return
		}
		err = &PanicError{Value: recover(), Stack: debug.Stack()}
		w.hold(nil)
		w.batch.exited = err
	}()
	if r.exclusive != nil {
		err = w.exclusively(w.nested(r.ctx), r.exclusive)
	} else {
		tx := w.newTx(r)
		w.hold(&tx.holder)
		err = r.fn(tx)
		tx.told = tx.cause != nil && errors.Is(err, tx.cause) // runs err's own code: here a panic is caught
		w.hold(nil)
	}
	finished = true
	return err
}

// newTx returns a fresh Tx: a caller that keeps one beyond its function must find
// it ended, not in use for somebody else.
func (w *Writer) newTx(r *request) *Tx {
	b := &w.batch
	if len(b.txs) == 0 {
		b.txs = make([]Tx, min(len(b.reqs)-b.pos, 64))
	}
	tx := &b.txs[0]
	b.txs = b.txs[1:]
	tx.Rx = &tx.rx
	tx.rx.conn, tx.rx.tx = w.conn, tx
	tx.w, tx.ctx = w, r.ctx
	tx.holder = holder{fn: r.fn, since: b.clock, tx: tx}
	b.tx = tx
	return tx
}

// end finishes the request that just ran: its statements, its savepoint, its
// place in the batch.
func (w *Writer) end(r *request, err error) {
	b := &w.batch
	b.exited = nil
	if r.exclusive != nil {
		b.pos++
		r.finish(err)
		w.checkpointIfDue()
		return
	}
	tx := b.tx
	b.tx = nil
	tx.rx.end()
	r.err = err
	b.ran = append(b.ran, r)
	b.pos++
	if err != nil {
		b.failed++
	}
	if w.doubt > 0 {
		w.doubt--
	}
	switch {
	case tx.cause != nil:
		w.abort(r, tx.cause, tx.told)
		return
	case err != nil && !b.savepoints:
		w.endUnprotected(r, err)
		return
	case tx.protected:
		if err := w.endSavepoint(tx, err == nil); err != nil {
			w.abort(r, err, false)
			return
		}
	}
	r.started, b.clock = b.clock, Now()
	r.ended = b.clock
}

// endUnprotected handles a failure in a batch without savepoints.
func (w *Writer) endUnprotected(r *request, cause error) {
	b := &w.batch
	if w.opt.Savepoints == SavepointNone && len(b.ran) > 1 {
		w.abort(r, cause, true)
		return
	}
	if err := w.rollback(); err != nil {
		w.abort(r, err, false)
		return
	}
	if w.opt.Savepoints == SavepointNone { // alone in its batch: it failed nobody else
		r.finish(cause)
		w.retire()
		w.account(Batch{Size: 1, Busy: b.since(), undone: true}, 1)
		return
	}
	w.careful = carefulBatches
	b.ran, b.failed = b.ran[:0], 0
	b.pos = 0
	b.savepoints = true
}

// abort rolls the batch back and tells everyone whose function had run. Those who
// had not started stay for the next transaction. told means that the culprit's own
// error tells of the cause already.
func (w *Writer) abort(culprit *request, cause error, told bool) {
	b := &w.batch
	if err := w.rollback(); err != nil {
		cause = errors.Join(cause, err)
	}
	shared := &BatchError{Op: "abort", Err: cause}
	for _, r := range b.ran {
		switch {
		case r != culprit:
			r.finish(shared)
		default:
			own := &BatchError{Op: "abort", Err: cause, Culprit: true}
			switch {
			case told:
				own.Err = r.err
			case r.err != nil:
				own.Err = errors.Join(cause, r.err)
			}
			r.finish(own)
		}
	}
	ran, busy := len(b.ran), b.since()
	w.retire()
	w.account(Batch{Size: ran, Busy: busy, Err: shared}, ran)
}

// since returns how long ago the batch began.
func (b *batch) since() time.Duration { return time.Duration(Now() - b.begun) }

// rollback ends whatever transaction is open.
func (w *Writer) rollback() error {
	w.batch.open, w.batch.savepoint.state = false, noSavepoint
	if !w.conn.inTransaction() {
		return nil
	}
	return w.conn.run(w.sql.rollback)
}

// retire forgets the requests whose outcome was delivered; they are their
// callers' now. It comes before OnBatch, which may end the goroutine.
func (w *Writer) retire() {
	b := &w.batch
	clear(b.ran)
	b.ran, b.failed = b.ran[:0], 0
	left := copy(b.reqs, b.reqs[b.pos:])
	clear(b.reqs[left:])
	b.reqs = b.reqs[:left]
	b.pos = 0
}

// commit commits the batch and tells everyone.
func (w *Writer) commit() {
	b := &w.batch
	committing := Now()
	err := w.conn.run(w.sql.commit)
	committed := Now()
	b.open, b.savepoint.state = false, noSavepoint
	var failure error
	if err != nil {
		code := Primary(err)
		doubt := code == sqliteh.SQLITE_IOERR || code == sqliteh.SQLITE_FULL
		if rerr := w.rollback(); rerr != nil {
			err = errors.Join(err, rerr)
		}
		failure = &BatchError{Op: "commit", Err: err, InDoubt: doubt}
		if isStorageFailure(err) {
			w.fail(err)
		}
	}
	ran, undone := len(b.ran), b.failed
	if failure != nil {
		undone = ran
	}
	w.wake(&commit{b.begun, committing, committed, failure, w.pauses})
	w.account(Batch{Size: ran, Busy: time.Duration(committed - b.begun), Commit: time.Duration(committed - committing), Err: failure}, undone)
	w.checkpointIfDue()
}

// wakeAside is how many callers a batch must have for a goroutine of its own to wake
// them: that takes a good part of a microsecond for each, in which the writer could
// do the next batch. For fewer, starting the goroutine takes longer.
const wakeAside = 64

// wake tells the callers of a batch that was committed. Who has to come after that
// waits for w.waking.
func (w *Writer) wake(c *commit) {
	b := &w.batch
	woken := b.ran
	if len(woken) < wakeAside {
		c.wake(woken)
	} else {
		w.waking.Go(func() {
			c.wake(woken)
			select {
			case w.spare <- woken[:0]:
			default: // there is enough already
			}
		})
		select {
		case b.ran = <-w.spare:
		default:
			b.ran = make([]*request, 0, len(woken))
		}
	}
	w.retire()
}

// exclusively runs fn on the connection outside of any transaction.
func (w *Writer) exclusively(ctx context.Context, fn func(*Conn) error) (err error) {
	w.hold(&holder{fn: fn, since: Now()})
	rx := w.conn.session()
	rx.owner = w
	defer func() { // also when fn panics
		rx.end()
		w.hold(nil)
		if rx.late != nil && !errors.Is(err, rx.late) {
			err = errors.Join(err, rx.late)
		}
		if open, rerr := w.conn.endOpen(); open {
			err = errors.Join(err, ErrOpenTx, rerr)
		}
		if rx.control {
			if rerr := w.reclaim(); rerr != nil {
				err = errors.Join(err, rerr)
			}
		}
	}()
	return fn(&Conn{rx, ctx})
}

// reclaim sets back what a PRAGMA may have changed and is the writer's own.
func (w *Writer) reclaim() error {
	w.conn.busyTimeout(w.opt.BusyTimeout)
	return errors.Join(
		w.conn.exec("PRAGMA query_only=off"),
		w.conn.exec("PRAGMA locking_mode=normal"),
		w.conn.exec("PRAGMA writable_schema=off"),
		w.wal.watch(w.conn, w.opt.Checkpoint)) // also ends an automatic checkpoint
}

// account adds a finished batch, of which undone transactions came to nothing, to
// the statistics and reports it.
func (w *Writer) account(done Batch, undone int) {
	b := &w.batch
	if done.Size == 0 {
		return
	}
	statements := w.conn.statements - b.statements
	b.statements = w.conn.statements
	w.statsMu.Lock()
	s := &w.stats
	s.Batches++
	s.Transactions += uint64(done.Size)
	s.RolledBack += uint64(undone)
	s.Statements += statements
	s.BusyTime += done.Busy
	s.CommitTime += done.Commit
	switch {
	case done.Err != nil:
		s.FailedBatches++
	case !done.undone:
		s.Commits++
	}
	s.BatchSizes.add(done.Size)
	w.statsMu.Unlock()
	if done.Err != nil {
		w.log(slog.LevelWarn, "batch failed", "size", done.Size, "err", done.Err)
	}
	if w.opt.OnBatch != nil {
		w.waking.Wait()
		done.Pending = w.queue.len()
		w.opt.OnBatch(done)
	}
}
