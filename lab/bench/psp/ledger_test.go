package psp

import (
	"bytes"
	"strconv"
	"sync"
	"testing"
)

// Those who have all found nothing render a charge each, and one of them is kept.
func TestThoseWhoMeetAtAKeyHaveOneCharge(t *testing.T) {
	t.Parallel()
	l := newLedger(DefaultLimit)
	for round := range 3000 {
		var made [4]entry
		var all sync.WaitGroup
		start := make(chan struct{})
		for i := range made {
			all.Go(func() {
				<-start
				made[i], _ = l.charge(keyRef{"acme", strconv.Itoa(round)}, asked{AmountCents: 1, Currency: "KRW"})
			})
		}
		close(start)
		all.Wait()
		for _, e := range made {
			if !bytes.Equal(e.rendered, made[0].rendered) || len(e.rendered) == 0 {
				t.Fatalf("round %d: two charges: %s and %s", round, made[0].rendered, e.rendered)
			}
		}
	}
}
