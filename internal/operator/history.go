package operator

import (
	"context"
	"errors"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
)

// history reads the status and the timeline of a dead letter's key. The timeline has all generations. The status is
// empty if the key stands for something else by now.
func (d *Service) history(
	ctx context.Context, deadLetter deadletters.DeadLetter,
) (idempotency.Status, []idempotency.Event, error) {
	ref := idempotency.StoredRef(deadLetter.About.Tenant, deadLetter.About.Operation, deadLetter.About.Key)
	events, err := d.keys.Events(ctx, ref)
	if err != nil {
		return "", nil, err
	}
	key, err := d.keys.Find(ctx, ref)
	switch {
	case errors.Is(err, idempotency.ErrNoKey):
		return "", events, nil
	case err != nil:
		return "", nil, err
	case !deadLetter.Concerns(key.Generation, key.Subject):
		return "", key.Timeline(events), nil
	}
	return key.Status, key.Timeline(events), nil
}
