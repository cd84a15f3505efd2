package httpapi

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A body takes a place only where it goes beyond what is usual, and waits for one no longer than one may be held.
func TestFewLargeBodiesAreReadAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		places := make(chan struct{}, 1)
		read := func(size int) (*largeBody, int) {
			b := &largeBody{ReadCloser: io.NopCloser(strings.NewReader(strings.Repeat("x", size))),
				w: httptest.NewRecorder(), now: time.Now, places: places, left: 10 + 1}
			raw, _ := io.ReadAll(b)
			return b, len(raw)
		}
		first, n := read(11)
		if n != 11 || !first.taken {
			t.Errorf("large: %d of 11 bytes, a place: %t", n, first.taken)
		}
		if usual, n := read(10); n != 10 || usual.taken || usual.crowded {
			t.Errorf("usual, with no place left: %d of 10 bytes, a place: %t", n, usual.taken)
		}
		if late, n := read(50); n != 11 || !late.crowded {
			t.Errorf("large, with no place left: %d bytes", n)
		}
		waited := make(chan int)
		go func() {
			next, n := read(50)
			next.leave()
			waited <- n
		}()
		synctest.Wait()
		first.leave()
		if n := <-waited; n != 50 || len(places) != 0 {
			t.Errorf("when a place is free: %d of 50 bytes, %d places held", n, len(places))
		}
	})
}
