package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestManagerAndItsCasesAreKnownByName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ manager, only, refused string }{
		{"patroni", "paused, store", ""},
		{"patroni", "sync", "sync"},
		{"", "paused", "paused"},
		{"repmgr", "", "repmgr"},
	} {
		environment := map[string]string{"HA": c.manager, "ONLY": c.only}
		_, err := loadSettings(func(name string) string { return environment[name] })
		if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A log tells of every primary that its program has found.
func TestPrimaryIsFoundWhenTheLogTellsOfThisPromotion(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "api-1.log")
	text := `{"time":"2026-11-30T12:00:00Z","msg":"primary found"}
{"time":"2026-11-30T12:01:00Z","msg":"request"}
not JSON
{"time":"2026-11-30T12:01:01Z","msg":"primary found"}
`
	if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	promoted := time.Date(2026, 11, 30, 12, 1, 0, 0, time.UTC)
	if found, err := primaryFound(log, promoted); err != nil || found.Sub(promoted) != time.Second {
		t.Errorf("found %s, %v", found, err)
	}
	if found, err := primaryFound(log, promoted.Add(time.Minute)); err == nil {
		t.Errorf("a promotion that nobody has noticed was found at %s", found)
	}
}
