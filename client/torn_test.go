package client

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
)

// hollow loses the middle of the last line, and keeps its end.
func hollow(t *testing.T, path string) (kept int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	kept = bytes.LastIndexByte(text[:len(text)-1], '\n') + 1
	clear(text[kept+10 : len(text)-5])
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return kept
}

// A power failure may keep the end of a line, and lose its middle.
func TestLastLineWithoutItsMiddleIsCut(t *testing.T) {
	t.Parallel()
	for name, add := range map[string]func(*Journal) error{
		"Create": func(j *Journal) error { _, err := j.Create(t.Context(), record("three")); return err },
		"Update": func(j *Journal) error {
			ended := record("two")
			ended.State, ended.Status, ended.Answer = Ended, 201, []byte("{}")
			return j.Update(t.Context(), ended)
		},
	} {
		path := written(t)
		j := openJournal(t, path)
		if err := errors.Join(add(j), j.Close()); err != nil {
			t.Fatal(err)
		}
		kept := hollow(t, path)
		j = openJournal(t, path)
		open, err := j.Unfinished(t.Context())
		if err != nil || len(open) != 1 || open[0].Key != record("two").Key {
			t.Errorf("%s: open %+v, %v", name, open, err)
		}
		if info, err := os.Stat(path); err != nil || info.Size() != int64(kept) {
			t.Errorf("%s: %d bytes are left, want %d: %v", name, info.Size(), kept, err)
		}
		if err := errors.Join(add(j), j.Close()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		openJournal(t, path)
	}
}

// The only line of a journal is its last one.
func TestOnlyLineWithoutItsMiddleIsCut(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	j := openJournal(t, path)
	if _, err := j.Create(t.Context(), record("one")); err != nil {
		t.Fatal(err)
	}
	_ = j.Close()
	hollow(t, path)
	openJournal(t, path)
	if info, err := os.Stat(path); err != nil || info.Size() != 0 {
		t.Errorf("%d bytes are left: %v", info.Size(), err)
	}
}

// The disk may have what fsync could not confirm. The intent is then paid by the next process, under the same key.
func TestIntentMayBeStoredDespiteAnErrorOfTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, reply{status: 201})
		b.journal.sync = func() error { return errors.New("the disk is broken") }
		for range 2 {
			if _, err := b.client.Pay(t.Context(), order); err == nil || b.attempts(t) != 0 {
				t.Fatalf("%v after %d attempts", err, len(b.seen))
			}
		}
		b.restart(t)
		results, errs := b.resumed(t.Context(), t)
		if len(results) != 1 || errs[0] != nil || !results[0].Paid {
			t.Fatalf("resumed %+v, %v", results, errs)
		}
		if again, err := b.client.Pay(t.Context(), order); err != nil || !again.Paid || b.attempts(t) != 1 {
			t.Errorf("%+v, %v after %d attempts", again, err, len(b.seen))
		}
	})
}
