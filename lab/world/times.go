package world

import (
	"context"
	"time"

	"payonce/lab/program"
)

// The times of a world, by which a case can be over in seconds. They keep the relations that the programs check at
// their start.
const (
	Lease       = 3 * time.Second
	PSPTimeout  = 1 * time.Second
	PSPLate     = 2 * time.Second
	PSPLandsAt  = 1 * time.Second         // a late charge, after its request; within PSPLate
	PSPAsksFor  = 1500 * time.Millisecond // how long customers and banks take at Stripe; within the grace period
	FirstLookup = 500 * time.Millisecond
	// GracePeriod is how long after a key became unknown "not found" becomes proof.
	GracePeriod = Lease + PSPLate
	// Retention is the programs' own default.
	Retention = 48 * time.Hour
)

// Times are the settings of the API and the reconciler.
func Times() map[string]string {
	return map[string]string{
		"LEASE": Lease.String(), "PSP_TIMEOUT": PSPTimeout.String(),
		"PSP_LATE_LIMIT": PSPLate.String(),
		"FIRST_LOOKUP":   FirstLookup.String(),
		"KEY_RETENTION":  Retention.String(),
		// Longer than pm_slow, and shorter than a lost execution: second requests are answered both ways.
		"IN_FLIGHT_WAIT": "500ms",
		"SWEEP_EVERY":    "300ms", "CLAIM_EVERY": "200ms", "SCAN_EVERY": "1s", "SCAN_OVERLAP": "30s",
		"LOOKUP_BASE": "300ms", "LOOKUP_CAP": "2s", "LOOKUP_BUDGET": "12",
	}
}

// pspTimes are those of the mock PSP.
func pspTimes() map[string]string {
	return map[string]string{
		"MOCKPSP_SLOW_DELAY": "300ms", "MOCKPSP_HANG_LIMIT": "3s", "MOCKPSP_LATE_DELAY": PSPLandsAt.String(),
		"MOCKPSP_WEBHOOK_DELAY": "50ms", "MOCKPSP_WEBHOOK_SCHEDULE": "200ms,500ms,1s,1s,2s,2s,5s,5s,10s,10s,20s,20s",
	}
}

// Until asks until the answer is yes, or ctx ends: for what there is no event to wait for.
func Until(ctx context.Context, pause time.Duration, ask func() (bool, error)) error {
	for {
		if yes, err := ask(); yes || err != nil {
			return err
		}
		if !program.Wait(ctx, pause) {
			return context.Cause(ctx)
		}
	}
}
