package invariants

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"payonce/internal/payment"
)

// maxStrangers bounds how many payments and refunds, and as many keys, are asked for in the name of somebody else.
const maxStrangers = 200

// strangers is I5: what belongs to another tenant is answered as what does not exist.
func strangers(ctx context.Context, e Evidence, w world) ([]Violation, error) {
	tenants := slices.Sorted(maps.Keys(e.APIKeys))
	if len(e.APIs) == 0 || len(tenants) < 2 {
		return nil, nil
	}
	var found []Violation
	asked := 0
	for _, m := range w.books.subjects {
		if asked == maxStrangers {
			break
		}
		i := slices.Index(tenants, m.Tenant)
		if i < 0 {
			continue
		}
		asked++
		stranger := tenants[(i+1)%len(tenants)]
		pairs := [][2]string{{m.path(), m.none()}}
		if w.books.keys[keyName{stranger, m.operation(), m.Key}] == nil { // otherwise it is a key of its own, too
			pairs = append(pairs, [2]string{m.keyPath(m.Key), m.keyPath("no-such-key-" + uuid.NewString())})
		}
		for _, pair := range pairs {
			differs, err := e.sameAsNone(ctx, stranger, pair[0], pair[1])
			if err != nil {
				return nil, err
			}
			if differs != "" {
				found = append(found, Violation{"I5", m.keyName().String(),
					fmt.Sprintf("%s of %s, asked for by %s: %s", m, m.Tenant, stranger, differs)})
			}
		}
	}
	return found, nil
}

func (m *movementRow) path() string {
	if m.PaymentID != nil {
		return "/refunds/" + m.String()
	}
	return "/payments/" + m.String()
}

// none is the path of what does not exist.
func (m *movementRow) none() string {
	if m.PaymentID != nil {
		return "/refunds/" + payment.RefundID(uuid.New()).String()
	}
	return "/payments/" + payment.ID(uuid.New()).String()
}

func (m *movementRow) operation() string {
	if m.PaymentID != nil {
		return payment.RefundOperation
	}
	return payment.CreateOperation
}

func (m *movementRow) keyPath(key string) string {
	return "/idempotency-keys/" + url.PathEscape(key) + "?" + url.Values{"operation": {m.operation()}}.Encode()
}

// sameAsNone compares the answers, but for what differs between any two requests.
func (e Evidence) sameAsNone(ctx context.Context, tenant, theirs, none string) (string, error) {
	their, err := e.seen(ctx, tenant, theirs)
	if err != nil {
		return "", err
	}
	nothing, err := e.seen(ctx, tenant, none)
	switch {
	case err != nil:
		return "", err
	case their.status != http.StatusNotFound:
		return fmt.Sprintf("the answer is %d", their.status), nil
	case their != nothing:
		return fmt.Sprintf("the answer is %v, and for nothing at all %v", their, nothing), nil
	}
	return "", nil
}

// view is an answer without its date, its request id, and the path that was asked for.
type view struct {
	status       int
	header, body string
}

func (e Evidence) seen(ctx context.Context, tenant, path string) (view, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base(e.APIs[0])+path, http.NoBody)
	if err != nil {
		return view{}, err
	}
	request.Header.Set("Authorization", "Bearer "+e.APIKeys[tenant])
	r, err := e.do(request)
	if err != nil {
		return view{}, fmt.Errorf("ask for what is another tenant's: %w", err)
	}
	for _, name := range []string{"Date", "X-Request-Id", "Content-Length"} {
		r.header.Del(name)
	}
	body := map[string]jsontext.Value{}
	if err := json.Unmarshal(r.body, &body); err != nil {
		return view{}, fmt.Errorf("read the answer to %s: %w", path, err)
	}
	delete(body, "instance")
	kept, err := json.Marshal(body, json.Deterministic(true))
	if err != nil {
		return view{}, err
	}
	return view{r.status, fmt.Sprint(r.header), string(kept)}, nil
}
