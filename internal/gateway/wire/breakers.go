package wire

import (
	"errors"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"payonce/internal/gateway"
)

// maxBreakers bounds how many accounts have a breaker at the same time. An account without failures needs none: a new
// breaker has the same state.
const maxBreakers = 1024

// breakers are the circuit breakers of the accounts whose last requests failed, one for each account. So the failures
// of one account stop no other account's payments.
//
// If there are maxBreakers of them, a further account replaces a breaker that refuses no requests. A closed one is
// replaced first, then a half-open one, and among these the one that was used longest ago. The replaced account loses
// its count of failures. An open breaker is never replaced: otherwise somebody with failures in many accounts could
// close it. If all are open, a further account has no breaker for now, and only its share of the places limits it.
type breakers struct {
	limits gateway.Limits
	now    func() time.Time
	most   int

	mu        sync.Mutex
	byAccount map[string]*breaker
}

// errUnhealthy tells a breaker that an outcome is a sign of an unhealthy PSP.
var errUnhealthy = errors.New("psp unhealthy")

// breaker is the circuit breaker of one account.
type breaker struct {
	*gobreaker.TwoStepCircuitBreaker[struct{}]
	users int // requests in flight that will report to it
	used  time.Time
}

func newBreakers(l gateway.Limits, now func() time.Time, most int) *breakers {
	return &breakers{limits: l, now: now, most: most, byAccount: map[string]*breaker{}}
}

// open reports whether the account's requests are refused now.
func (b *breakers) open(account string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.byAccount[account]
	return own != nil && own.State() == gobreaker.StateOpen
}

// allow reports whether the account may send a request. If it may, the caller must call report once, with the result.
func (b *breakers) allow(account string) (report func(healthy bool), ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.byAccount[account]
	if own == nil {
		if len(b.byAccount) >= b.most && !b.evict() {
			return func(bool) {}, true
		}
		own = b.newBreaker()
		b.byAccount[account] = own
	}
	own.used = b.now()
	done, err := own.Allow()
	if err != nil {
		return nil, false
	}
	own.users++
	return func(healthy bool) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if healthy {
			done(nil)
		} else {
			done(errUnhealthy)
		}
		if own.users--; own.users == 0 && own.State() == gobreaker.StateClosed &&
			own.Counts().ConsecutiveFailures == 0 {
			delete(b.byAccount, account)
		}
	}, true
}

// evict removes one breaker that can be replaced. It returns false if there is none.
func (b *breakers) evict() bool {
	var victim string
	var least *breaker
	for account, own := range b.byAccount {
		if own.users > 0 || own.State() == gobreaker.StateOpen {
			continue
		}
		if least == nil || own.State() < least.State() || own.State() == least.State() && own.used.Before(least.used) {
			victim, least = account, own
		}
	}
	if least != nil {
		delete(b.byAccount, victim)
	}
	return least != nil
}

func (b *breakers) newBreaker() *breaker {
	return &breaker{TwoStepCircuitBreaker: gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:        "psp",
		MaxRequests: 1,
		Timeout:     b.limits.BreakerOpen,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= b.limits.BreakerFailures },
	})}
}
