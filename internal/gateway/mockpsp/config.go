package mockpsp

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"
)

// Config is what a Server needs. Start from [DefaultConfig]: New takes no zero value for a default.
type Config struct {
	// LedgerPath is the ledger's file, created when missing. Empty keeps the ledger in memory only: then Close
	// loses it, together with late charges that have not landed.
	LedgerPath string
	// Secret is what callers of /v1 send as their bearer token.
	Secret string
	// Now dates the entries. Pauses run on the real clock.
	Now func() time.Time
	// Rand draws the faults of PUT /_faults, one draw for each request that is eligible, in their order of arrival.
	// The server is its only user.
	Rand *rand.Rand
	Log  *slog.Logger

	// SlowDelay is how long pm_slow waits before it charges.
	SlowDelay time.Duration
	// HangLimit is the longest that a request is held that never gets an answer. It ends earlier when the client goes.
	HangLimit time.Duration
	// LateDelay is how long after closing the connection pm_late_charge lands.
	LateDelay time.Duration
}

// DefaultConfig returns the demo's settings: a ledger in memory, the secret demo-psp-secret, the real clock,
// unpredictable faults, and no log.
func DefaultConfig() Config {
	return Config{
		Secret:    "demo-psp-secret",
		Now:       time.Now,
		Rand:      rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
		Log:       slog.New(slog.DiscardHandler),
		SlowDelay: 3 * time.Second,
		HangLimit: 30 * time.Second,
		LateDelay: 4 * time.Second,
	}
}

func (c Config) check() error {
	switch {
	case c.Secret == "":
		return errors.New("the secret is empty")
	case c.Now == nil || c.Rand == nil || c.Log == nil:
		return errors.New("a clock, randomness and a logger are required: start from DefaultConfig")
	case c.SlowDelay < 0 || c.HangLimit < 0 || c.LateDelay < 0:
		return errors.New("a delay is negative")
	default:
		return nil
	}
}
