package client

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The times of retries.
const (
	firstPause    = 200 * time.Millisecond // of the backoff, which doubles
	longestPause  = 10 * time.Second       // of the backoff
	maxRetryAfter = 1000 * 24 * time.Hour  // longer than any deadline; a larger number may not fit into a Duration
	maxDoublings  = 10
)

// pause is how long to wait before the next attempt. asked is the server's Retry-After, 0 for none. jitter draws
// uniformly from [0, limit). The server's time is a least time: the jitter is added to it, so that clients that were
// refused together do not come back together. If the server's time is longer than what is left, no wait begins.
func pause(attempt int, asked time.Duration, jitter func(limit time.Duration) time.Duration) time.Duration {
	limit := min(firstPause<<min(attempt-1, maxDoublings), longestPause)
	if asked > 0 {
		return asked + jitter(firstPause)
	}
	return jitter(limit)
}

// retryAfter reads the header of RFC 9110, section 10.2.3: a number of seconds, or an HTTP date. A value that is
// neither, and a date in the past, are no wish: 0. More than maxRetryAfter is maxRetryAfter.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if value != "" && strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(maxRetryAfter/time.Second) {
			return maxRetryAfter
		}
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(0, at.Sub(now)), maxRetryAfter)
}

// sleep waits, and fails when ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
