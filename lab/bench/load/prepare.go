package load

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// prepare makes the payments that are to be replayed, and returns their keys.
func prepare(ctx context.Context, p Plan) ([]string, error) {
	keys, made := make([]string, p.Keys), newIDs()
	for i := range keys {
		var id [idLength]byte
		made.write(id[:], time.Now())
		keys[i] = string(id[:])
	}
	p.KeyList, p.Keys, p.Requests = keys, 0, int64(len(keys))
	p.Rate, p.WarmUpSeconds, p.Seconds = 0, 0, maxRunSeconds
	result, err := Run(ctx, p)
	switch {
	case err != nil:
		return nil, err
	case result.Unexpected > 0 || result.Lost > 0:
		return nil, errors.New(result.FirstUnexpected)
	case result.Requests != p.Requests:
		return nil, fmt.Errorf("%d of %d were made", result.Requests, p.Requests)
	}
	return keys, nil
}
