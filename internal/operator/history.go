package operator

import (
	"context"
	"errors"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
)

// history reads the timeline of a dead letter's key, with all generations.
func (d *Service) history(ctx context.Context, about deadletters.About) ([]idempotency.Event, error) {
	ref := idempotency.StoredRef(about.Tenant, about.Operation, about.Key)
	events, err := d.keys.Events(ctx, ref)
	if err != nil {
		return nil, err
	}
	key, err := d.keys.Find(ctx, ref)
	if errors.Is(err, idempotency.ErrNoKey) {
		return events, nil
	}
	return key.Timeline(events), err
}
