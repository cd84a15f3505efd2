package gateway

import "time"

// Limits bound what one process uses of a PSP.
type Limits struct {
	Dial  time.Duration // longest time to connect
	Total time.Duration // longest time from sending to the end of the answer
	Queue time.Duration // longest wait for a place for the request
	// InFlight is how many requests may be in flight, with reads. An account may hold half of the free places, and
	// always one.
	InFlight int
	Stall    time.Duration // longest wait for the next bytes of a statement, to which Total does not apply

	BreakerFailures uint32        // so many failures in a row open an account's breaker
	BreakerOpen     time.Duration // how long the breaker stays open before it lets one request pass
}

// DefaultLimits are the values of the settings' defaults.
func DefaultLimits() Limits {
	return Limits{
		Dial: 2 * time.Second, Total: 8 * time.Second, Queue: time.Second, InFlight: 64, Stall: 30 * time.Second,
		BreakerFailures: 20, BreakerOpen: 5 * time.Second,
	}
}
