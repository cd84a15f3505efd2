package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// tellsTime is whatever PostgreSQL has for the time of day.
	tellsTime = regexp.MustCompile(`(?i)\b(clock_timestamp|transaction_timestamp|statement_timestamp|timeofday|now)\s*\(` +
		`|\b(current_timestamp|current_time|current_date|localtimestamp|localtime)\b|'(now|today|tomorrow|yesterday)'`)
	sqlComment = regexp.MustCompile(`--.*`)
)

// All times of ours are by one clock, payonce_now: only then does changing the clock, as an engine of several servers
// may have to, change all of it.
func TestOneFunctionTellsTheTime(t *testing.T) {
	t.Parallel()
	files := []string{}
	for _, pattern := range []string{"internal/*/*.sql", "db/queries/*.sql", "db/migrations/*.sql",
		"db/migrations/roles/*.sql"} {
		found, err := filepath.Glob(filepath.Join(moduleRoot(t), pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(found), err)
		}
		files = append(files, found...)
	}
	clocks := 0
	for _, path := range files {
		if strings.Contains(filepath.Base(path), "_river_v") {
			continue // River has its own clock for its own tables
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(raw), "\n") {
			code := sqlComment.ReplaceAllString(line, "")
			switch {
			case filepath.Base(path) == "00110_clock.sql" &&
				strings.Contains(code, "RETURN pg_catalog.clock_timestamp()"):
				clocks++
			case tellsTime.MatchString(code):
				t.Errorf("%s:%d: ask payonce_now() instead: %s", filepath.Base(path), i+1, strings.TrimSpace(code))
			}
		}
	}
	if clocks != 1 {
		t.Errorf("payonce_now asks the clock in %d places", clocks)
	}
	for _, line := range []string{"at = now()", "CURRENT_TIMESTAMP - x", "DEFAULT 'now'", "statement_timestamp ()"} {
		if !tellsTime.MatchString(line) {
			t.Errorf("%s goes unseen", line)
		}
	}
	if tellsTime.MatchString("at = payonce_now()") || tellsTime.MatchString("known(x)") {
		t.Error("our own clock is taken for another")
	}
}
