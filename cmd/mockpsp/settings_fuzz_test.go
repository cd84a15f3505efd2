package main

import (
	"strings"
	"testing"
)

// Settings that are read have no negative pause, and those that are not name the variable that is wrong and no field of
// ours.
func FuzzSettings(f *testing.F) {
	f.Add("MOCKPSP_SEED", "7", "MOCKPSP_WEBHOOK_SCHEDULE", "1s,2s")
	f.Add("MOCKPSP_SLOW_DELAY", "-1s", "MOCKPSP_LATE_DELAY", "soon")
	f.Add("MOCKPSP_WEBHOOK_SCHEDULE", "1s,,2s", "MOCKPSP_SEED", "-1")
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2 string) {
		environment := map[string]string{name1: value1, name2: value2}
		s, err := readSettings(func(name string) string { return environment[name] })
		if err != nil {
			if !strings.Contains(err.Error(), "MOCKPSP_") {
				t.Fatalf("%q is refused with %v", environment, err)
			}
			return
		}
		if s.SlowDelay < 0 || s.HangLimit < 0 || s.LateDelay < 0 || s.WebhookDelay < 0 || s.Seed == 0 ||
			len(s.WebhookSchedule) == 0 {
			t.Fatalf("%q is taken as %+v", environment, s)
		}
	})
}
