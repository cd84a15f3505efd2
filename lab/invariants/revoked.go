package invariants

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// RevocationLimit is how long a revoked API key may still open something: the five seconds that are promised, and some
// for a busy machine.
const RevocationLimit = 15 * time.Second

// Revoked is the part of I5 about a key that is revoked while it is in use. It revokes the one that may only read, for
// good, and so comes last. limit is how long it may still be answered.
func Revoked(ctx context.Context, e Evidence, limit time.Duration) ([]Violation, error) {
	e, done := e.withClient()
	defer done()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	status := func(api string) (int, error) {
		r, err := e.insist(ctx, func() (*http.Request, error) {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, base(api)+"/payments?limit=1", http.NoBody)
			if err == nil {
				request.Header.Set("Authorization", "Bearer "+e.Limited.Reader)
			}
			return request, err
		})
		return r.status, err
	}
	for _, api := range e.APIs {
		if got, err := status(api); err != nil || got != http.StatusOK {
			return nil, fmt.Errorf("use the key that is going to be revoked: answered %d (%w)", got, err)
		}
	}
	if _, err := e.DB.Exec(ctx,
		"UPDATE api_keys SET expires_at = payonce_now() WHERE secret_sha256 = sha256(convert_to($1, 'UTF8'))", e.Limited.Reader); err != nil {
		return nil, fmt.Errorf("revoke an API key: %w", err)
	}
	began := time.Now()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for _, api := range e.APIs {
		for {
			got, err := status(api)
			if err != nil {
				return nil, fmt.Errorf("use a revoked key: %w", err)
			}
			if got == http.StatusUnauthorized {
				break
			}
			if time.Since(began) > limit {
				return []Violation{{"I5", "a revoked key",
					fmt.Sprintf("%s after it was revoked, it is answered %d", limit, got)}}, nil
			}
			<-poll.C
		}
	}
	return nil, nil
}
