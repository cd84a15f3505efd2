package client

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func record(intent string) Record {
	return Record{Intent: intent, Key: "key-of-" + intent, Body: []byte(orderBody), Opened: noon, State: Open}
}

func openJournal(t *testing.T, path string) *Journal {
	t.Helper()
	j, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// written makes a journal of two intents, of which the first has ended, and returns its path.
func written(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, path)
	ended := record("one")
	for _, r := range []Record{ended, record("two")} {
		if _, err := j.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	ended.State, ended.Status, ended.Answer = Ended, 201, []byte(`{"paymentId":"pay_1"}`)
	if err := j.Update(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestJournalIsReadBack(t *testing.T) {
	t.Parallel()
	path := written(t)
	j := openJournal(t, path)
	open, err := j.Unfinished(t.Context())
	if err != nil || len(open) != 1 || !reflect.DeepEqual(open[0], record("two")) {
		t.Errorf("open %+v, %v", open, err)
	}
	fresh := record("one")
	fresh.Key = "another key"
	stored, err := j.Create(t.Context(), fresh)
	if err != nil || stored.Key != "key-of-one" || stored.State != Ended || stored.Status != 201 ||
		string(stored.Answer) != `{"paymentId":"pay_1"}` {
		t.Errorf("stored %+v, %v", stored, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// A crash may leave any part of the last line. The lines before it count, and the next one can be read again.
func TestTornLastLineIsCut(t *testing.T) {
	t.Parallel()
	path := written(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	last := strings.LastIndexByte(strings.TrimSuffix(string(whole), "\n"), '\n') + 1
	for cut := last; cut < len(whole); cut += 7 {
		torn := filepath.Join(t.TempDir(), "torn")
		if err := os.WriteFile(torn, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		j := openJournal(t, torn)
		if _, err := j.Create(t.Context(), record("three")); err != nil {
			t.Fatal(err)
		}
		_ = j.Close()
		open, err := openJournal(t, torn).Unfinished(t.Context())
		if err != nil || len(open) != 3 || open[2].Intent != "three" {
			t.Fatalf("cut at %d: %+v, %v", cut, open, err)
		}
	}
}

// A torn line may be longer than the next one, which must not be followed by the rest of it.
func TestNothingStaysOfATornLine(t *testing.T) {
	t.Parallel()
	path := written(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(whole, strings.Repeat("0", 9000)...), 0o600); err != nil {
		t.Fatal(err)
	}
	j := openJournal(t, path)
	if info, err := os.Stat(path); err != nil || info.Size() != int64(len(whole)) {
		t.Errorf("%d bytes are left of %d, %v", info.Size(), len(whole), err)
	}
	if _, err := j.Create(t.Context(), record("three")); err != nil {
		t.Fatal(err)
	}
	_ = j.Close()
	if open, err := openJournal(t, path).Unfinished(t.Context()); err != nil || len(open) != 2 {
		t.Errorf("%+v, %v", open, err)
	}
}

// A record is on the disk before Create and Update return; and if it may not be, nobody is told that it is.
func TestRecordIsDurableBeforeItIsUsed(t *testing.T) {
	t.Parallel()
	path := written(t)
	j := openJournal(t, path)
	lines := 0
	j.sync = func() error {
		raw, err := os.ReadFile(path)
		lines = strings.Count(string(raw), "\n")
		return err
	}
	if _, err := j.Create(t.Context(), record("three")); err != nil || lines != 4 {
		t.Errorf("%v, %d lines were written before the disk was asked", err, lines)
	}
	if err := j.Update(t.Context(), record("three")); err != nil || lines != 5 {
		t.Errorf("%v, %d lines were written before the disk was asked", err, lines)
	}
	j.sync = func() error { return errors.New("the disk is broken") }
	if _, err := j.Create(t.Context(), record("four")); err == nil {
		t.Error("a record counts that may not be on the disk")
	}
	j.sync = func() error { return nil }
	if _, err := j.Create(t.Context(), record("five")); err == nil {
		t.Error("the journal goes on after a disk error")
	}
}

func TestDamagedJournalIsNotOpened(t *testing.T) {
	t.Parallel()
	whole, err := os.ReadFile(written(t))
	if err != nil {
		t.Fatal(err)
	}
	text := string(whole)
	second := record("two")
	second.Key = "a second key"
	twice, err := line(second)
	if err != nil {
		t.Fatal(err)
	}
	second.State = "a state of a later version"
	later, err := line(second)
	if err != nil {
		t.Fatal(err)
	}
	for name, damaged := range map[string]string{
		"changed byte":        strings.Replace(text, "key-of-one", "key-of-onE", 1),
		"changed last line":   text[:len(text)-5] + "!" + text[len(text)-4:],
		"lost line end":       strings.Replace(text, "\n", " ", 1),
		"empty line":          "\n" + text,
		"wrong sum, and more": text[:len(text)-3] + "!" + text[len(text)-2:] + "0123",
		"second key":          text + string(twice),
		"unknown state":       text + string(later),
	} {
		path := filepath.Join(t.TempDir(), "damaged")
		if err := os.WriteFile(path, []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if j, err := OpenJournal(path); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v, %v", name, j, err)
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != damaged {
			t.Errorf("%s: a journal that was refused was changed: %v", name, err)
		}
	}
}

func TestJournalIsOneProcessesAlone(t *testing.T) {
	t.Parallel()
	path := written(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// What looks torn may be a line that the other process is writing.
	if err := os.WriteFile(path, append(whole, "0123"...), 0o600); err != nil {
		t.Fatal(err)
	}
	held, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock(held); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenJournal(path); !errors.Is(err, ErrLocked) {
		t.Errorf("%v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != int64(len(whole)+4) {
		t.Errorf("a journal that another process has open was cut: %v", err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	openJournal(t, path)
}

// An intent keeps its key, and an end stays.
func TestJournalRefusesASecondKeyAndKeepsEnds(t *testing.T) {
	t.Parallel()
	j := openJournal(t, written(t))
	changed := record("two")
	changed.Key = "another key"
	if err := errors.Join(j.Update(t.Context(), changed), j.Update(t.Context(), record("never created"))); err == nil ||
		strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("%v", err)
	}
	unused := record("one")
	unused.State = Unused
	if err := j.Update(t.Context(), unused); err != nil {
		t.Error(err)
	}
	if stored, err := j.Create(t.Context(), unused); err != nil || stored.State != Ended {
		t.Errorf("%+v, %v", stored, err)
	}
}

// After a write has failed, nobody knows what the file has.
func TestJournalRefusesEverythingAfterAFailedWrite(t *testing.T) {
	t.Parallel()
	path := written(t)
	j := openJournal(t, path)
	good := j.file
	readOnly, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	j.file = readOnly
	if _, err := j.Create(t.Context(), record("three")); err == nil {
		t.Fatal("it was not written, and nobody said so")
	}
	_ = readOnly.Close()
	j.file = good
	if _, err := j.Create(t.Context(), record("four")); err == nil {
		t.Error("it was written after a failed write")
	}
	if open, _ := j.Unfinished(t.Context()); len(open) != 1 {
		t.Errorf("it remembers what is not on the disk: %+v", open)
	}
}

func FuzzJournalLine(f *testing.F) {
	declined := Record{Intent: "two", Key: "k", Body: []byte("{}"), State: Ended, Status: 402}
	for _, r := range []Record{record("one"), declined} {
		text, err := line(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, raw string) {
		read, err := parseLine([]byte(raw))
		if err != nil {
			return
		}
		written, err := line(read)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseLine(written)
		if err != nil || !again.Opened.Equal(read.Opened) || again.Intent != read.Intent || again.Key != read.Key ||
			string(again.Body) != string(read.Body) || again.State != read.State {
			t.Errorf("%q is read as %+v, written as %q, read as %+v, %v", raw, read, written, again, err)
		}
	})
}

func FuzzRetryAfter(f *testing.F) {
	for _, value := range []string{"", "7", "Fri, 20 Nov 2026 12:00:09 GMT", "99999999999999999999"} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if d := retryAfter(value, noon); d < 0 || d > maxRetryAfter || d%time.Second != 0 {
			t.Errorf("Retry-After %q is %s", value, d)
		}
	})
}
