package operator

import (
	"context"
	"errors"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
)

// history reads where a letter's key stands, and how it came there. The timeline has all generations; the status is that of the
// letter's own, and empty when the key stands for something else by now.
func (d *Desk) history(ctx context.Context, letter deadletters.Letter) (idempotency.Status, []idempotency.Event, error) {
	ref := idempotency.StoredRef(letter.About.Tenant, letter.About.Operation, letter.About.Key)
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
	case !letter.Concerns(key.Generation, key.Subject):
		return "", key.Timeline(events), nil
	}
	return key.Status, key.Timeline(events), nil
}
