package operator

import (
	"context"
	"errors"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
)

// history reads where a letter's key stands, and how it came there. The timeline has all generations; the status is that of the
// letter's own, and empty when there is another one by now.
func (d *Desk) history(ctx context.Context, about deadletters.About) (idempotency.Status, []idempotency.Event, error) {
	ref := idempotency.StoredRef(about.Scope, about.Key)
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
	case key.Generation != about.Generation:
		return "", key.Timeline(events), nil
	}
	return key.Status, key.Timeline(events), nil
}
