package httpapi

import (
	"context"
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

// A list of payments by status may read through all payments of its tenant, and holds a connection of the pool
// meanwhile. The pool is for all tenants. So a tenant reads few lists at the same time: with the default pool, they
// hold a quarter of it. A further list waits for its turn as long as it would wait for a connection.
const (
	maxLists     = 4
	listPatience = time.Second
)

// listPlaces has the lists that are being read, by tenant. The number of tenants bounds it.
type listPlaces struct {
	mu     sync.Mutex
	places map[string]chan struct{}
}

func newListPlaces() *listPlaces { return &listPlaces{places: map[string]chan struct{}{}} }

// enter takes a place of the tenant, and waits for one. If ok, the caller calls leave once.
func (l *listPlaces) enter(ctx context.Context, tenant string) (leave func(), ok bool) {
	l.mu.Lock()
	places := l.places[tenant]
	if places == nil {
		places = make(chan struct{}, maxLists)
		l.places[tenant] = places
	}
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, listPatience)
	defer cancel()
	select {
	case places <- struct{}{}:
		return func() { <-places }, true
	case <-ctx.Done():
		return nil, false
	}
}
