package client

import (
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestRetryAfterIsSecondsOrADate(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{
		"":                               0,
		"0":                              0,
		"7":                              7 * time.Second,
		" 7 ":                            7 * time.Second,
		"61":                             61 * time.Second,
		"86400000":                       maxRetryAfter,
		"86400001":                       maxRetryAfter,
		"99999999999999999999":           maxRetryAfter,
		"-1":                             0,
		"1.5":                            0,
		"soon":                           0,
		"Fri, 20 Nov 2026 12:00:09 GMT":  9 * time.Second,
		"Friday, 20-Nov-26 12:00:09 GMT": 9 * time.Second,
		"Fri, 20 Nov 2026 11:00:00 GMT":  0,
		"Sat, 20 Nov 2027 12:00:00 GMT":  365 * 24 * time.Hour,
		"Tue, 20 Nov 2029 12:00:00 GMT":  maxRetryAfter,
		"Mon, 20 Nov 9999 12:00:00 GMT":  maxRetryAfter,
	} {
		if got := retryAfter(value, noon); got != want {
			t.Errorf("Retry-After %q is %s, want %s", value, got, want)
		}
	}
}

func TestBackoffDoublesWithFullJitter(t *testing.T) {
	t.Parallel()
	var limits []time.Duration
	for attempt := 1; attempt <= 8; attempt++ {
		pause(attempt, 0, func(limit time.Duration) time.Duration {
			limits = append(limits, limit/firstPause)
			return 0
		})
	}
	if want := []time.Duration{1, 2, 4, 8, 16, 32, 50, 50}; !slices.Equal(want, limits) {
		t.Errorf("limits %v, want %v", limits, want)
	}
	if got := pause(math.MaxInt, 0, func(limit time.Duration) time.Duration { return limit }); got != longestPause {
		t.Errorf("a late attempt waits %s", got)
	}
}

// Retry-After is the least time. The jitter comes on top.
func TestServersTimeIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		after := func(value string) reply {
			return reply{status: 503, code: "psp_unavailable", header: map[string]string{"Retry-After": value}}
		}
		b := setup(t, after("3"), after("600"), reply{status: reset},
			reply{status: 202, body: "{}", header: map[string]string{"Retry-After": "2"}}, reply{status: 201})
		if _, err := b.client.Pay(patiently(t, time.Hour), order); err != nil {
			t.Fatal(err)
		}
		half := firstPause / 2
		want := []time.Duration{3*time.Second + half, 10*time.Minute + half, 4 * half, 2*time.Second + half}
		if got := b.pauses(); !slices.Equal(want, got) {
			t.Errorf("pauses %v, want %v", got, want)
		}
	})
}

// A wait that would end after the deadline is not begun.
func TestDeadlineIsNotSleptThrough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for asked, left := range map[string]time.Duration{"50": 40 * time.Second, "3600": 30 * time.Minute,
			"99999999999999999999": 24 * time.Hour} {
			b := setup(t, reply{status: 202, body: "{}", header: map[string]string{"Retry-After": asked}})
			began := time.Now()
			_, err := b.client.Pay(patiently(t, left), order)
			var unknown *UnknownError
			if took := time.Since(began); !errors.As(err, &unknown) || took != 0 || b.attempts(t) != 1 {
				t.Errorf("%v after %s and %d attempts", err, took, len(b.seen))
			}
		}
	})
}
