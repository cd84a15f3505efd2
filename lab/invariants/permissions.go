package invariants

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"payonce/internal/problem"
)

// Limited are API keys that may not do everything. An empty one is not tried.
type Limited struct {
	Reader, Writer, Ended         string // of a tenant: it may only read, only write, or nothing any more
	OperatorReader, OperatorEnded string
}

// attempt is a request and how it has to be refused, or the status that it must have.
type attempt struct {
	who, secret  string
	method, path string
	body         string
	want         int
}

// permissions is the part of I5 about what an API key may do. Whatever is tried here has to be refused, or only reads:
// what moves money asks for a payment of a tenant's that nobody else has ordered, and leaves no row.
func permissions(ctx context.Context, e Evidence, w world) ([]Violation, error) {
	if len(e.APIs) == 0 {
		return nil, nil
	}
	var found []Violation
	for _, a := range e.attempts(w) {
		wrong, err := e.try(ctx, a)
		if err != nil {
			return nil, fmt.Errorf("try what %s may: %w", a.who, err)
		}
		if wrong != "" {
			found = append(found, Violation{"I5", a.who, fmt.Sprintf("%s %s: %s", a.method, a.path, wrong)})
		}
	}
	return found, nil
}

// attempts are all combinations of a key and a route, at the public side and the operator's.
func (e Evidence) attempts(w world) []attempt {
	const order = `{"customerId":"cus-of-nobody","amountCents":1,"currency":"USD"}`
	public := func(who, secret string, read, write int) []attempt {
		if secret == "" && who != "nobody" {
			return nil
		}
		all := []attempt{{who, secret, http.MethodGet, base(e.APIs[0]) + "/payments?limit=1", "", read}}
		if p := w.books.anyPayment(e); p != nil {
			all = append(all, attempt{who, secret, http.MethodGet, base(e.APIs[0]) + p.path(), "", read},
				attempt{who, secret, http.MethodGet, base(e.APIs[0]) + p.keyPath(p.Key), "", read})
			if write != http.StatusOK {
				all = append(all, attempt{who, secret, http.MethodPost, base(e.APIs[0]) + p.path() + "/refunds", `{}`,
					write})
			}
		}
		if write != http.StatusOK {
			all = append(all, attempt{who, secret, http.MethodPost, base(e.APIs[0]) + "/payments", order, write})
		}
		return all
	}
	ops := func(who, secret string, read, resolve int) []attempt {
		if len(e.Operators) == 0 || secret == "" && who != "nobody" {
			return nil
		}
		at := base(e.Operators[0]) + "/operator/"
		return []attempt{
			{who, secret, http.MethodGet, at + "summary", "", read},
			{who, secret, http.MethodGet, at + "dead-letters?limit=1", "", read},
			{who, secret, http.MethodPost, at + "dead-letters/" + uuid.NewString() + "/resolve",
				`{"action":"dismiss","reason":"may I","version":1}`, resolve},
		}
	}
	const forbidden, unknown, ok = http.StatusForbidden, http.StatusUnauthorized, http.StatusOK
	var all []attempt
	for _, of := range [][]attempt{
		public("nobody", "", unknown, unknown), public("a reader", e.Limited.Reader, ok, forbidden),
		public("a writer", e.Limited.Writer, forbidden, ok),
		public("an ended key", e.Limited.Ended, unknown, unknown),
		public("an operator", e.OperatorKey, forbidden, forbidden),
		ops("nobody", "", unknown, unknown), ops("a reader", e.Limited.Reader, forbidden, forbidden),
		ops("a writer", e.Limited.Writer, forbidden, forbidden),
		ops("an operator who reads", e.Limited.OperatorReader, ok, forbidden),
		ops("an operator", e.OperatorKey, ok, http.StatusNotFound),
		ops("an operator whose key has ended", e.Limited.OperatorEnded, unknown, unknown),
	} {
		all = append(all, of...)
	}
	return append(all, e.strangersRefunds(w)...)
}

// strangersRefunds are of payments that belong to somebody else.
func (e Evidence) strangersRefunds(w world) []attempt {
	p := w.books.anyPayment(e)
	if p == nil {
		return nil
	}
	var all []attempt
	for tenant, secret := range e.APIKeys {
		if tenant != p.Tenant {
			all = append(all, attempt{"another tenant", secret, http.MethodPost, base(e.APIs[0]) + p.path() +
				"/refunds", `{}`, http.StatusNotFound})
		}
	}
	return all
}

// anyPayment is the one of the limited keys' tenant that has succeeded, which anybody could refund who may.
func (b *books) anyPayment(e Evidence) *movementRow {
	var first *movementRow
	for _, m := range b.subjects {
		k := b.keys[m.keyName()]
		if m.PaymentID != nil || m.Tenant != e.limitedTenant() || m.Status != "succeeded" || k == nil ||
			k.Subject != m.ID || k.Status != "completed" {
			continue
		}
		if first == nil || m.ID.String() < first.ID.String() {
			first = m
		}
	}
	return first
}

// limitedTenant is whose the limited keys are.
func (e Evidence) limitedTenant() string { return "acme" }

func (e Evidence) try(ctx context.Context, a attempt) (wrong string, err error) {
	r, err := e.insist(ctx, func() (*http.Request, error) {
		request, err := http.NewRequestWithContext(ctx, a.method, a.path, bytes.NewReader([]byte(a.body)))
		if err != nil {
			return nil, err
		}
		if a.secret != "" {
			request.Header.Set("Authorization", "Bearer "+a.secret)
		}
		if a.body != "" {
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Idempotency-Key", "trial-"+uuid.NewString())
		}
		return request, nil
	})
	code := map[int]problem.Code{
		http.StatusUnauthorized: problem.Unauthenticated, http.StatusForbidden: problem.Forbidden,
		http.StatusNotFound: problem.NotFound,
	}[a.want]
	switch {
	case err != nil:
		return "", err
	case r.status != a.want:
		return fmt.Sprintf("the answer is %d, not %d", r.status, a.want), nil
	case code != "" && readDocument(r.body).text("code") != string(code):
		return fmt.Sprintf("the answer is %s, not %s", r.body, code), nil
	}
	return "", nil
}

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
