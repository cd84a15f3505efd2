package httpapi

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"payonce/internal/tenants"
)

// A list of payments by status may read through all payments of its tenant, and holds a connection of the pool
// meanwhile. The pool is for all tenants. So a tenant reads few lists at the same time: with the default pool, they
// hold a quarter of it. A further list waits for its turn as long as it would wait for a connection.
const (
	maxLists     = 4
	listPatience = time.Second
)

// limits has the limits of each tenant that has sent a request. The number of tenants bounds it.
type limits struct {
	mu      sync.Mutex
	tenants map[string]*limit
}

// limit is what a tenant may still send.
type limit struct {
	bucket *rate.Limiter
	lists  chan struct{} // has room for the lists that are being read
}

func newLimits() *limits { return &limits{tenants: map[string]*limit{}} }

// of is called with the lock held.
func (l *limits) of(p tenants.Principal) *limit {
	if l.tenants[p.Tenant] == nil {
		l.tenants[p.Tenant] = &limit{rate.NewLimiter(rate.Limit(p.RequestsPerSecond), p.Burst),
			make(chan struct{}, maxLists)}
	}
	return l.tenants[p.Tenant]
}

// allow takes one token of the tenant. If there is none, wait is the time until the next one.
func (l *limits) allow(p tenants.Principal, now time.Time) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.of(p).bucket
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

// enter takes a place of the tenant, and waits for one. If ok, the caller calls leave once.
func (l *limits) enter(ctx context.Context, p tenants.Principal) (leave func(), ok bool) {
	l.mu.Lock()
	places := l.of(p).lists
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
