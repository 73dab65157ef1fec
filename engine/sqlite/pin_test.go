package sqlite

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/internal/wal"
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
		const frame = 4096 + wal.FrameHeader
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
	type removed struct{} // the WAL was
	for name, tt := range map[string]struct {
		steps                    []any // an int is a commit, an answer a checkpoint
		written, pending, copied int64 // pages
		due                      bool
	}{
		"grows":                        {[]any{3, 5, 9}, 9, 9, 0, false},
		"is due":                       {[]any{3, 5, 10}, 10, 10, 0, true},
		"told in another order":        {[]any{3, 9, 5}, 9, 9, 0, false},
		"all moved":                    {[]any{12, answer{pages: 12, done: 12}}, 12, 0, 12, false},
		"starts anew":                  {[]any{12, answer{pages: 12, done: 12}, 4}, 16, 4, 12, false},
		"starts anew, larger":          {[]any{12, answer{pages: 12, done: 12}, 20}, 32, 20, 12, true},
		"emptied":                      {[]any{12, answer{pages: 0, done: 0}, 4}, 16, 4, 12, false},
		"some left":                    {[]any{12, answer{pages: 12, done: 7, pinned: true}, 15}, 15, 8, 7, false},
		"some left, due again":         {[]any{12, answer{pages: 12, done: 7, pinned: true}, 22}, 22, 15, 7, true},
		"the rest later":               {[]any{12, answer{pages: 12, done: 7, pinned: true}, 15, answer{pages: 15, done: 15}, 2}, 17, 2, 15, false},
		"all moved, a reader stays":    {[]any{12, answer{pages: 12, done: 12, pinned: true}, 15}, 15, 3, 12, false},
		"all moved, the reader went":   {[]any{12, answer{pages: 12, done: 12, pinned: true}, 4}, 16, 4, 12, false},
		"waited in vain, all moved":    {[]any{12, answer{pages: 12, done: 12, busy: true}, 13}, 13, 1, 12, false},
		"anew and in another order":    {[]any{12, answer{pages: 12, done: 12, pinned: true}, 4, 3}, 16, 4, 12, false},
		"removed":                      {[]any{3, 9, removed{}}, 9, 0, 0, false},
		"removed, then some":           {[]any{9, removed{}, 4, 5}, 14, 5, 0, false},
		"removed, then due":            {[]any{9, removed{}, 11}, 20, 11, 0, true},
		"removed, some were moved":     {[]any{12, answer{pages: 12, done: 7, pinned: true}, removed{}, 10}, 22, 10, 7, true},
		"removed, all were moved":      {[]any{12, answer{pages: 12, done: 12, pinned: true}, removed{}, 4, 3}, 16, 4, 12, false},
		"a checkpoint failed":          {[]any{12, answer{pages: -1, done: -1}, 13}, 13, 13, 0, true},
		"a checkpoint without any log": {[]any{answer{pages: 0, done: 0}, answer{pages: -1, done: -1}}, 0, 0, 0, false},
	} {
		l := poolLog{limit: wal.Limit{Most: limit}}
		checkpoints := int64(0)
		for _, step := range tt.steps {
			switch step := step.(type) {
			case int:
				l.grown(step)
			case answer:
				l.begin()
				l.end(step)
				checkpoints++
			case removed:
				l.removed()
			}
		}
		got := l.stats(0) // pages of nothing but their header
		if got.WALBytes != tt.written*wal.FrameHeader || got.WALPending != tt.pending*wal.FrameHeader || got.CheckpointPages != tt.copied {
			t.Errorf("%s: %d written, %d pending, %d copied; want %d, %d, %d", name,
				got.WALBytes/wal.FrameHeader, got.WALPending/wal.FrameHeader, got.CheckpointPages, tt.written, tt.pending, tt.copied)
		}
		if l.due() != tt.due || got.Checkpoints != checkpoints {
			t.Errorf("%s: due is %v, after %d checkpoints", name, l.due(), got.Checkpoints)
		}
	}
}

// Each checkpoint tells whether readers block the log, and one that is removed is
// not blocked.
func TestPoolLogBlocked(t *testing.T) {
	var l poolLog
	for _, step := range []struct {
		name    string
		told    func()
		blocked bool
	}{
		{"nothing yet", func() {}, false},
		{"all moved", func() { l.begin(); l.end(answer{pages: 7, done: 7}) }, false},
		{"some left", func() { l.begin(); l.end(answer{pages: 9, done: 7}) }, true},
		{"failed", func() { l.begin(); l.end(answer{pages: -1, done: -1}) }, true},
		{"all moved then", func() { l.begin(); l.end(answer{pages: 9, done: 9}) }, false},
		{"waited in vain", func() { l.begin(); l.end(answer{pages: 9, done: 9, busy: true}) }, true},
		{"removed", l.removed, false},
	} {
		before := l.blocked.Until(writer.Now())
		step.told()
		now := writer.Now()
		if goesOn := l.blocked.Until(now+5) > l.blocked.Until(now); goesOn != step.blocked || l.blocked.Until(now) < before {
			t.Errorf("%s: blocked is %v, for %v after %v", step.name, goesOn, l.blocked.Until(now), before)
		}
	}
}

// The limit of a pool follows what checkpoints cost, but not those that readers
// hindered, or that did not run as the policy has it.
func TestPoolLogLimit(t *testing.T) {
	for name, tt := range map[string]struct {
		stall time.Duration
		ended answer // of a log of 1000 pages
		want  int
	}{
		"dear":            {1, answer{pages: 1000, done: 1000, policy: true}, 500},
		"dear, emptied":   {1, answer{policy: true}, 500},
		"cheap":           {time.Hour, answer{pages: 1000, done: 1000, policy: true}, 1250},
		"cheap, emptied":  {time.Hour, answer{policy: true}, 1250},
		"cheap, pinned":   {time.Hour, answer{pages: 1000, done: 1000, policy: true, pinned: true}, 1250},
		"does not matter": {0, answer{pages: 1000, done: 1000, policy: true}, 4000},
		"settling":        {1, answer{pages: 1000, done: 1000}, 1000},
		"some left":       {1, answer{pages: 1000, done: 900, policy: true}, 1000},
		"waited in vain":  {1, answer{pages: 1000, done: 1000, policy: true, busy: true}, 1000},
		"failed":          {1, answer{pages: -1, done: -1, policy: true}, 1000},
	} {
		l := poolLog{limit: wal.Limit{Most: 4000, Stall: tt.stall}}
		l.grown(1000)
		l.begin()
		for began := writer.Now(); writer.Now() < began+2; { // a clock may stand still for some time
		}
		l.end(tt.ended)
		if got := l.limit.Pages(); got != tt.want {
			t.Errorf("%s: the limit is %d, want %d", name, got, tt.want)
		}
		if tt.ended.pinned { // then the log goes on, and this many more are due
			if l.grown(1000 + tt.want - 1); l.due() {
				t.Errorf("%s: one is due at once", name)
			}
			if l.grown(1000 + tt.want); !l.due() {
				t.Errorf("%s: none is due at the limit", name)
			}
		}
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
	l.end(answer{pages: 1, done: 1})
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
