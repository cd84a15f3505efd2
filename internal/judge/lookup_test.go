package judge

import (
	"testing"
	"time"

	"payonce/internal/gateway"
)

func TestWaitsGrowAndAreShortenedByChance(t *testing.T) {
	t.Parallel()
	for chance, want := range map[float64][]time.Duration{
		0:    {10 * time.Second, 20 * time.Second, 30 * time.Second, 30 * time.Second},
		0.5:  {7500 * time.Millisecond, 15 * time.Second, 22500 * time.Millisecond, 22500 * time.Millisecond},
		0.99: {5050 * time.Millisecond, 10100 * time.Millisecond, 15150 * time.Millisecond, 15150 * time.Millisecond},
	} {
		p := LookupPolicy{Base: 10 * time.Second, Cap: 30 * time.Second, Chance: chance}
		for failures, wait := range want {
			if got := p.shortened(p.backoff(int32(failures))); got != wait {
				t.Errorf("by %v after %d failures: %v, want %v", chance, failures, got, wait)
			}
		}
		if got := p.backoff(1 << 30); got != p.Cap {
			t.Errorf("after very many failures: %v", got)
		}
	}
}

// A charge that waits for its customer is left to the customer as long as the grace period lasts.
func TestLookupEndsWhatWaitsAfterTheGracePeriod(t *testing.T) {
	t.Parallel()
	for left, want := range map[time.Duration]gateway.End{
		time.Second: gateway.EndUnsent, 0: gateway.EndWaiting, -time.Second: gateway.EndWaiting,
	} {
		if got := MayEnd(Seen{GraceLeft: left}); got != want {
			t.Errorf("with %v left: %v", left, got)
		}
	}
}
