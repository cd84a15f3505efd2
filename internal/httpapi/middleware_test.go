package httpapi

import (
	"context"
	"testing"
	"time"
)

func TestAnswerThatNobodyCanHaveRead(t *testing.T) {
	t.Parallel()
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	for name, c := range map[string]struct {
		request context.Context
		took    time.Duration
		want    bool
	}{
		"answered":                   {t.Context(), WriteTimeout, false},
		"the client has hung up":     {gone, time.Second, true},
		"the process was paused":     {t.Context(), WriteTimeout + time.Nanosecond, true},
		"paused, and the client too": {gone, WriteTimeout + time.Second, true},
	} {
		if got := unread(c.request, c.took); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
