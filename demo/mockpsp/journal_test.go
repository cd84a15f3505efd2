package mockpsp

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// onFile keeps the ledger in the named file.
func onFile(path string, further ...func(*Config)) func(*Config) {
	return func(c *Config) {
		c.LedgerPath = path
		for _, change := range further {
			change(c)
		}
	}
}

func ledgerPath(t *testing.T) string { return filepath.Join(t.TempDir(), "ledger.jsonl") }

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteString(text)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}

func refusedStart(t *testing.T, path string) error {
	t.Helper()
	config := DefaultConfig()
	config.LedgerPath = path
	psp, err := New(config)
	if err == nil {
		_ = psp.Close()
		t.Fatal("started")
	}
	return err
}

func TestRestartKeepsTheLedger(t *testing.T) {
	t.Parallel()
	path := ledgerPath(t)
	p := setup(t, onFile(path, func(c *Config) { c.HangLimit = time.Millisecond }))
	first := p.charge("key-1", "pm_ok")
	declined := p.charge("key-2", "pm_declined")
	p.charge("key-3", "pm_stuck")
	refund := p.refund(first.entry(t).ID, "key-4", "", 600)
	refund.want(t, http.StatusCreated, "")
	before := p.get("/_ledger").body
	cursor := p.list("/v1/charges?limit=1").NextCursor
	p.stop()

	p = setup(t, onFile(path, func(c *Config) {
		c.HangLimit = time.Millisecond
		c.Now = func() time.Time { return time.Unix(0, 0) } // a clock that was set back
	}))
	if after := p.get("/_ledger").body; after != before {
		t.Errorf("ledger (-before +after):\n%s", cmp.Diff(before, after))
	}
	for _, replay := range []struct{ want, got result }{
		{first, p.charge("key-1", "pm_ok")},
		{declined, p.charge("key-2", "pm_declined")},
		{refund, p.refund(first.entry(t).ID, "key-4", "", 600)},
	} {
		if replay.got.status != replay.want.status || replay.got.body != replay.want.body {
			t.Errorf("replayed %d %s", replay.got.status, replay.got.body)
		}
	}
	p.charge("key-1", "pm_slow").want(t, http.StatusUnprocessableEntity, "idempotency_mismatch")
	p.get("/v1/charges?idempotencyKey=key-3").want(t, http.StatusInternalServerError, "internal_error")
	p.refund(first.entry(t).ID, "key-5", "", 401).want(t, http.StatusPaymentRequired, "")
	later := p.charge("key-6", "pm_ok").entry(t)
	if later.CreatedAt <= refund.entry(t).CreatedAt {
		t.Errorf("created at %s, before what was there", later.CreatedAt)
	}
	if rest := p.list("/v1/charges?cursor=" + cursor).Data; len(rest) != 2 || rest[0].IdempotencyKey != "key-2" ||
		rest[1].ID != later.ID {
		t.Errorf("the old cursor lists %+v", rest)
	}
}

func TestRestartLandsLateCharges(t *testing.T) {
	t.Parallel()
	path := ledgerPath(t)
	p := setup(t, onFile(path)) // late by an hour
	for _, key := range []string{"key-1", "key-2"} {
		if got := p.charge(key, "pm_late_charge"); !errors.Is(got.err, io.EOF) {
			t.Fatalf("got %d %v, want EOF", got.status, got.err)
		}
	}
	p.stop()

	p = setup(t, onFile(path)) // still not due
	p.charge("key-1", "pm_late_charge").want(t, http.StatusConflict, "idempotency_key_in_use")
	p.stop()

	muchLater := func(c *Config) { c.Now = func() time.Time { return time.Now().Add(2 * time.Hour) } }
	p = setup(t, onFile(path, muchLater))
	await(t, "both land", func() bool { return len(p.ledger("").Charges) == 2 })
	landed := p.charge("key-1", "pm_late_charge")
	landed.want(t, http.StatusCreated, "")
	p.stop()

	p = setup(t, onFile(path, muchLater)) // and do not land again
	if got := p.ledger("").Charges; len(got) != 2 || len(p.psp.ledger.promises()) != 0 || p.psp.ledger.promised != 0 {
		t.Errorf("charges %+v, %d promises", got, p.psp.ledger.promised)
	}
	if again := p.charge("key-1", "pm_late_charge"); again.body != landed.body {
		t.Errorf("replayed %s", again.body)
	}
}

func TestTornLastLineIsCutOffAndLogged(t *testing.T) {
	t.Parallel()
	for name, torn := range map[string]string{
		"half a line": `{"entry":{"id":"ch_half","obj`, "with newline": `{"entry":{"id":"ch_ha` + "\n",
		"zeros": "\x00\x00\x00",
	} {
		path := ledgerPath(t)
		p := setup(t, onFile(path))
		p.charge("key-1", "pm_ok").want(t, http.StatusCreated, "")
		p.stop()
		intact, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		appendTo(t, path, torn)

		var log bytes.Buffer
		p = setup(t, onFile(path, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) }))
		if got := p.ledger("").Charges; len(got) != 1 || !strings.Contains(log.String(), "torn line") {
			t.Errorf("%s: %d charges; log: %s", name, len(got), log.String())
		}
		if now, _ := os.ReadFile(path); !bytes.Equal(now, intact) {
			t.Errorf("%s: the file is %q", name, now)
		}
		p.charge("key-2", "pm_ok").want(t, http.StatusCreated, "")
		p.stop()
		if got := setup(t, onFile(path)).ledger("").Charges; len(got) != 2 {
			t.Errorf("%s: %d charges after one more", name, len(got))
		}
	}
}

func TestDamageBeforeTheLastLineIsRefused(t *testing.T) {
	t.Parallel()
	path := ledgerPath(t)
	p := setup(t, onFile(path))
	p.charge("key-1", "pm_ok")
	p.charge("key-2", "pm_ok")
	p.stop()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	good, second, _ := strings.Cut(string(whole), "\n")
	good += "\n"
	for name, content := range map[string]string{
		"not JSON":             "x" + good + second,
		"same entry twice":     good + good,
		"unknown fault":        strings.Replace(good, `"fault":"pm_ok"`, `"fault":"pm_new"`, 1),
		"unknown object":       strings.Replace(good, `"object":"charge"`, `"object":"gift"`, 1),
		"no time":              strings.Replace(good, `"createdAt":"`, `"createdAt":"soon`, 1),
		"unknown member":       strings.Replace(good, `{"entry"`, `{"v":2,"entry"`, 1) + second,
		"entries out of order": good + strings.NewReplacer(`"createdAt":"2`, `"createdAt":"1`).Replace(second),
		"promise after its landing": good + strings.Replace(good, `"fault":"pm_ok"`,
			`"fault":"pm_ok","dueAt":"2026-11-20T00:00:00Z"`, 1),
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := refusedStart(t, path); !strings.Contains(err.Error(), "line ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSecondPSPOnTheSameLedgerIsRefused(t *testing.T) {
	t.Parallel()
	path := ledgerPath(t)
	p := setup(t, onFile(path))
	if err := refusedStart(t, path); !strings.Contains(err.Error(), "another mock PSP") {
		t.Errorf("refused with: %v", err)
	}
	p.stop()
	setup(t, onFile(path)).charge("key-1", "pm_ok").want(t, http.StatusCreated, "")
}

func TestLedgerInAMissingDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	if err := refusedStart(t, filepath.Join(t.TempDir(), "none", "ledger.jsonl")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("refused with: %v", err)
	}
}

// Nobody may be told "not found" while a line of unknown fate is in the file.
func TestFailedWriteEndsAllAnswersUntilARestart(t *testing.T) {
	t.Parallel()
	path := ledgerPath(t)
	p := setup(t, onFile(path))
	p.charge("key-1", "pm_ok").want(t, http.StatusCreated, "")
	readOnly, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	whole := p.psp.ledger.file.file
	p.psp.ledger.file.file = readOnly // the writer waits for its queue

	p.charge("key-2", "pm_ok").want(t, http.StatusInternalServerError, "internal_error")
	p.charge("key-1", "pm_ok").want(t, http.StatusInternalServerError, "internal_error")
	p.get("/v1/charges?idempotencyKey=key-2").want(t, http.StatusInternalServerError, "internal_error")
	p.stop()
	if err := whole.Close(); err != nil {
		t.Fatal(err)
	}
	p = setup(t, onFile(path))
	p.charge("key-2", "pm_ok").want(t, http.StatusCreated, "")
	if got := p.ledger("").Charges; len(got) != 2 {
		t.Errorf("%d charges", len(got))
	}
}

func TestNothingIsWrittenAfterAFailedWrite(t *testing.T) {
	t.Parallel()
	path := ledgerPath(t)
	p := setup(t, onFile(path))
	p.psp.ledger.broken = errors.New("disk full") // the writer waits for its queue
	if err := p.psp.ledger.write(&record{Entry: entry{Object: ObjectCharge}, Fault: faultOK}); err == nil {
		t.Error("written")
	}
	p.stop()
	if content, _ := os.ReadFile(path); len(content) != 0 {
		t.Errorf("the file is %q", content)
	}
}

// What arrives together shares an fsync, and is on disk before it is answered.
func TestConcurrentChargesAreAllOnDisk(t *testing.T) {
	t.Parallel()
	path := ledgerPath(t)
	p := setup(t, onFile(path))
	var group sync.WaitGroup
	for i := range 100 {
		group.Go(func() {
			answer := p.charge("key-"+string(rune('a'+i%26))+strings.Repeat("x", i/26), "pm_ok")
			content, err := os.ReadFile(path)
			if err != nil || answer.status != http.StatusCreated ||
				!bytes.Contains(content, []byte(answer.entry(t).ID)) {
				t.Errorf("answered %d before it was in the file (%v)", answer.status, err)
			}
		})
	}
	group.Wait()
	before := p.get("/_ledger").body
	p.stop()
	if after := setup(t, onFile(path)).get("/_ledger").body; after != before {
		t.Error("the restart reads another ledger, or the same in another order")
	}
}

func TestBatchIsBoundedAndEndsWithTheQueue(t *testing.T) {
	t.Parallel()
	l := &ledger{queue: make(chan pendingWrite, queueLength)}
	for range maxBatch + 5 {
		l.queue <- pendingWrite{}
	}
	if got := len(l.gather(<-l.queue)); got != maxBatch {
		t.Errorf("a batch of %d", got)
	}
	close(l.queue)
	if got := len(l.gather(<-l.queue)); got != 5 {
		t.Errorf("the rest is a batch of %d", got)
	}
}

// A pipe can be written but not synced, which is how this test sees that a sync is asked for, and heeded.
func TestAppendIsNotDoneBeforeTheSync(t *testing.T) {
	t.Parallel()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(reader.Close(), writer.Close()) }()
	if err := (&journal{writer}).append([]byte("a line\n")); err == nil || !strings.HasPrefix(err.Error(), "sync: ") {
		t.Errorf("appended without a sync: %v", err)
	}
}
