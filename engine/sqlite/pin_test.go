package sqlite

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/writer"
	"github.com/tpssim/tpssim/writer/writertest"
)

// pinsOf returns the snapshots that an engine holds.
func pinsOf(e engine.Engine) *pins {
	if q, ok := e.(*queued); ok {
		return &q.pins
	}
	return &e.(*pool).pins
}

// A pinned reader sees the database as it was, the WAL grows past its limit and
// the statistics name the reason; once it is released a checkpoint empties the WAL.
func TestPin(t *testing.T) {
	both(t, func(t *testing.T, needs engine.Needs) {
		const limit, updates = 10, 100 // a page each
		opt := copyOf(t, accounts.SchemaRowid)
		opt.Checkpoint = "pages:10"
		opt.Pragmas = map[string]string{"synchronous": "off"}
		e := start(t, opt, needs)
		if err := e.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		release, err := e.(engine.Pinner).Pin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		observed := observe(e)
		for range updates {
			if err := e.Update(t.Context(), nil, add(1, 1)); err != nil {
				t.Fatal(err)
			}
		}
		got := quiet(t, e, observed)
		const frame = 4096 + walFrameHeader
		if least := int64(updates * frame); got.WALBytes < least || got.WALPending < least || got.WALFileBytes < least {
			t.Errorf("after %d pages under a pinned snapshot: %+v", updates, got)
		}
		if got.WALBytes > (updates+2)*frame {
			t.Errorf("%d bytes are told of %d pages", got.WALBytes, updates)
		}
		if got.Checkpoints < 2 || got.Checkpoints > updates/limit+2 { // one for each limit, and a try with patience
			t.Errorf("%d checkpoints of %d pages with a limit of %d", got.Checkpoints, updates, limit)
		}
		if got.WALBlocked <= 0 || observed().WALBlocked <= got.WALBlocked {
			t.Errorf("blocked for %v, and later for %v", got.WALBlocked, observed().WALBlocked)
		}
		for c := range pinsOf(e).open {
			if balance, err := c.Integer("SELECT balance FROM account WHERE id = 1"); balance != opt.Spec.Balance || err != nil {
				t.Errorf("the pinned reader sees %d, %v", balance, err)
			}
		}
		if err := release(); err != nil {
			t.Error(err)
		}
		if err := e.Settle(t.Context()); err != nil {
			t.Error(err)
		}
		over := observed()
		if over.WALPending != 0 || over.WALFileBytes != 0 || over.CheckpointPages < updates {
			t.Errorf("after the release: %+v", over)
		}
		if again := observed().WALBlocked; again != over.WALBlocked || again < got.WALBlocked {
			t.Errorf("blocked for %v, then %v, without a reader", over.WALBlocked, again)
		}
		if err := e.Update(t.Context(), nil, add(1, 1)); err != nil {
			t.Error(err)
		}
		if grown := quiet(t, e, observed).WALBytes - over.WALBytes; grown != frame {
			t.Errorf("one page more is told as %d bytes", grown)
		}
	})
}

// Without a WAL a reader would stop every commit.
func TestPinNeedsWAL(t *testing.T) {
	both(t, func(t *testing.T, needs engine.Needs) {
		opt := copyOf(t, accounts.SchemaRowid)
		opt.Pragmas = map[string]string{"journal_mode": "delete"}
		if _, err := start(t, opt, needs).(engine.Pinner).Pin(t.Context()); err != errNoLog {
			t.Errorf("got %v", err)
		}
	})
}

// Pin and Close at once: whoever is first, no connection is left.
func TestPinsClose(t *testing.T) {
	path := copyOf(t, accounts.SchemaRowid).Path
	var p pins
	before, after := connect(t, path), connect(t, path)
	if !p.add(before) || !p.held() {
		t.Error("it was refused")
	}
	if err := p.close(); err != nil || p.held() {
		t.Errorf("close: %v", err)
	}
	if p.add(after) {
		t.Error("it was accepted after the end")
	}
	if err := errors.Join(p.end(before), p.end(after), after.Close()); err != nil {
		t.Error(err)
	}
}

// The log of a pool counts each page once, whatever restarts it and in whatever
// order connections tell.
func TestPoolLog(t *testing.T) {
	const limit = 10
	type end struct {
		pages, done  int64
		busy, pinned bool
	}
	type removed struct{} // the WAL was
	for name, tt := range map[string]struct {
		steps                    []any // an int is a commit, an end a checkpoint
		written, pending, copied int64 // pages
		due                      bool
	}{
		"grows":                        {[]any{3, 5, 9}, 9, 9, 0, false},
		"is due":                       {[]any{3, 5, 10}, 10, 10, 0, true},
		"told in another order":        {[]any{3, 9, 5}, 9, 9, 0, false},
		"all moved":                    {[]any{12, end{pages: 12, done: 12}}, 12, 0, 12, false},
		"starts anew":                  {[]any{12, end{pages: 12, done: 12}, 4}, 16, 4, 12, false},
		"starts anew, larger":          {[]any{12, end{pages: 12, done: 12}, 20}, 32, 20, 12, true},
		"emptied":                      {[]any{12, end{pages: 0, done: 0}, 4}, 16, 4, 12, false},
		"some left":                    {[]any{12, end{pages: 12, done: 7, pinned: true}, 15}, 15, 8, 7, false},
		"some left, due again":         {[]any{12, end{pages: 12, done: 7, pinned: true}, 22}, 22, 15, 7, true},
		"the rest later":               {[]any{12, end{pages: 12, done: 7, pinned: true}, 15, end{pages: 15, done: 15}, 2}, 17, 2, 15, false},
		"all moved, a reader stays":    {[]any{12, end{pages: 12, done: 12, pinned: true}, 15}, 15, 3, 12, false},
		"all moved, the reader went":   {[]any{12, end{pages: 12, done: 12, pinned: true}, 4}, 16, 4, 12, false},
		"waited in vain, all moved":    {[]any{12, end{pages: 12, done: 12, busy: true}, 13}, 13, 1, 12, false},
		"anew and in another order":    {[]any{12, end{pages: 12, done: 12, pinned: true}, 4, 3}, 16, 4, 12, false},
		"removed":                      {[]any{3, 9, removed{}}, 9, 0, 0, false},
		"removed, then some":           {[]any{9, removed{}, 4, 5}, 14, 5, 0, false},
		"removed, then due":            {[]any{9, removed{}, 11}, 20, 11, 0, true},
		"removed, some were moved":     {[]any{12, end{pages: 12, done: 7, pinned: true}, removed{}, 10}, 22, 10, 7, true},
		"removed, all were moved":      {[]any{12, end{pages: 12, done: 12, pinned: true}, removed{}, 4, 3}, 16, 4, 12, false},
		"a checkpoint failed":          {[]any{12, end{pages: -1, done: -1}, 13}, 13, 13, 0, true},
		"a checkpoint without any log": {[]any{end{pages: 0, done: 0}, end{pages: -1, done: -1}}, 0, 0, 0, false},
	} {
		l := poolLog{limit: limit}
		checkpoints := int64(0)
		for _, step := range tt.steps {
			switch step := step.(type) {
			case int:
				l.grown(int64(step))
			case end:
				l.begin()
				l.end(step.pages, step.done, step.busy, step.pinned)
				checkpoints++
			case removed:
				l.removed()
			}
		}
		got := l.stats(0) // pages of nothing but their header
		if got.WALBytes != tt.written*walFrameHeader || got.WALPending != tt.pending*walFrameHeader || got.CheckpointPages != tt.copied {
			t.Errorf("%s: %d written, %d pending, %d copied; want %d, %d, %d", name,
				got.WALBytes/walFrameHeader, got.WALPending/walFrameHeader, got.CheckpointPages, tt.written, tt.pending, tt.copied)
		}
		if l.due() != tt.due || got.Checkpoints != checkpoints {
			t.Errorf("%s: due is %v, after %d checkpoints", name, l.due(), got.Checkpoints)
		}
	}
}

// The pool has the writer's rule for when the WAL counts as blocked.
func TestPoolLogBlocked(t *testing.T) {
	var l poolLog
	for _, step := range []struct {
		name        string
		pages, done int64
		busy        bool
		now         int64
		want, later time.Duration // at now, and 5 later
	}{
		{"nothing in the log", 0, 0, false, 10, 0, 0},
		{"all moved", 7, 7, false, 20, 0, 0},
		{"failed", -1, -1, false, 25, 0, 0},
		{"some left", 9, 7, false, 30, 0, 5},
		{"some left again", 12, 7, false, 40, 10, 15},
		{"failed meanwhile", -1, -1, false, 45, 15, 20},
		{"waited in vain", 12, 12, true, 50, 20, 25},
		{"all moved", 12, 12, false, 60, 30, 30},
		{"waited in vain, nothing left", 12, 12, true, 80, 30, 35},
		{"emptied", 0, 0, false, 90, 40, 40},
		{"another process checkpoints", -1, -1, true, 100, 40, 45},
		{"emptied again", 0, 0, false, 110, 50, 50},
	} {
		l.note(step.pages, step.done, step.busy, step.now)
		if now, later := l.blockedUntil(step.now), l.blockedUntil(step.now+5); now != step.want || later != step.later {
			t.Errorf("%s: %v and %v, want %v and %v", step.name, now, later, step.want, step.later)
		}
	}
	l.note(9, 7, false, writer.Now())
	l.removed()
	if over := l.blockedUntil(writer.Now()); over < 50 || l.blockedUntil(writer.Now()+1000) != over {
		t.Errorf("it goes on after the WAL was removed, or was forgotten: %v", over)
	}
}

// A checkpoint that somebody outside hindered counts, in every way in and whatever
// SQLite calls it.
func TestCheckpointHindered(t *testing.T) {
	both(t, func(t *testing.T, needs engine.Needs) {
		for _, code := range []sqliteh.Code{sqliteh.SQLITE_BUSY, sqliteh.SQLITE_LOCKED} {
			faults := &writertest.Faults{}
			opt := copyOf(t, accounts.SchemaRowid)
			opt.Open, opt.Checkpoint = faults.Open, "off"
			e := start(t, opt, needs)
			observed := observe(e)
			faults.Add(writertest.Rule{SQL: "CHECKPOINT", Code: code, Effect: writertest.Leave})
			if err := e.Settle(t.Context()); writer.Code(err) != code {
				t.Fatalf("Settle: %v", err)
			}
			during := observed().WALBlocked
			if err := e.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
			after := observed().WALBlocked
			if during <= 0 || after < during || observed().WALBlocked != after {
				t.Errorf("%s: blocked for %v while it was, %v and then %v afterwards", code, during, after, observed().WALBlocked)
			}
		}
	})
}

// How long checkpoints held everybody up is known at any moment of them.
func TestPoolLogHeld(t *testing.T) {
	var l poolLog
	if got := l.held(writer.Now()); got != 0 {
		t.Errorf("%d before any", got)
	}
	accepted := writer.Now()
	before := l.held(accepted)
	l.begin()
	began := l.since
	inside := began + 5
	if got := l.held(inside); got != 5 {
		t.Errorf("%d after 5 ns of the first", got)
	}
	if got := l.held(began - 5); got != 0 {
		t.Errorf("%d before it began", got)
	}
	l.end(1, 1, false, false)
	took := int64(l.took)
	if got := l.held(writer.Now()) - before; got != took || took < 0 || took > writer.Now()-accepted {
		t.Errorf("a checkpoint that took %d held for %d", took, got)
	}
}

// The sizes are those of the files.
func TestStatsSizes(t *testing.T) {
	both(t, func(t *testing.T, needs engine.Needs) {
		opt := copyOf(t, accounts.SchemaRowid)
		e := start(t, opt, needs)
		if err := e.Update(t.Context(), nil, add(1, 1)); err != nil {
			t.Fatal(err)
		}
		got := quiet(t, e, observe(e))
		for name, size := range map[string]int64{"": got.DBBytes, "-wal": got.WALFileBytes, "-shm": got.SHMBytes} {
			info, err := os.Stat(opt.Path + name)
			if err != nil {
				t.Fatal(err)
			}
			if size != info.Size() || size == 0 {
				t.Errorf("%q has %d bytes, observed are %d", name, info.Size(), size)
			}
		}
	})
}

// A Pin that fails leaves no connection behind.
func TestPinFails(t *testing.T) {
	both(t, func(t *testing.T, needs engine.Needs) {
		faults := &writertest.Faults{}
		opt := copyOf(t, accounts.SchemaRowid)
		opt.Open = faults.Open
		e := start(t, opt, needs)
		faults.Add(writertest.Rule{SQL: "SELECT count(*) FROM sqlite_schema", Code: sqliteh.SQLITE_IOERR_READ, On: writertest.OnReaders})
		if _, err := e.(engine.Pinner).Pin(t.Context()); writer.Primary(err) != sqliteh.SQLITE_IOERR || pinsOf(e).held() {
			t.Errorf("got %v", err)
		}
		release, err := e.(engine.Pinner).Pin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := release(); err != nil {
			t.Error(err)
		}
	})
}
