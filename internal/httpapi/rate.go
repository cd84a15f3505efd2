package httpapi

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"payonce/internal/tenants"
)

// rateLimits has a token bucket for each tenant that has sent a request. The number of tenants bounds the number of
// buckets.
type rateLimits struct {
	mu      sync.Mutex
	buckets map[string]*rate.Limiter
}

func newRateLimits() *rateLimits { return &rateLimits{buckets: map[string]*rate.Limiter{}} }

// allow takes one token of the tenant. If there is none, wait is the time until the next one.
func (l *rateLimits) allow(p tenants.Principal, now time.Time) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.buckets[p.Tenant]
	if b == nil {
		b = rate.NewLimiter(rate.Limit(p.RequestsPerSecond), p.Burst)
		l.buckets[p.Tenant] = b
	}
	if b.Limit() != rate.Limit(p.RequestsPerSecond) || b.Burst() != p.Burst {
		b.SetLimitAt(now, rate.Limit(p.RequestsPerSecond))
		b.SetBurstAt(now, p.Burst)
	}
	reservation := b.ReserveN(now, 1)
	wait = reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
		return wait, false
	}
	return 0, true
}
