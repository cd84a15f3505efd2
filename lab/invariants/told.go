package invariants

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"

	"payonce/internal/payment"
	"payonce/lab/history"
)

// toldWhatIsStored is I3 of the past: each final answer that a client has heard is the stored one.
func toldWhatIsStored(w world, e Evidence) []Violation {
	var found []Violation
	for _, o := range e.History {
		if !isFinal(o) {
			continue
		}
		k := w.books.lifeOf(o)
		if k == nil {
			found = append(found, Violation{"I3", nameOf(o).String(),
				fmt.Sprintf("client %d was told %d of a key that is not there", o.Client, o.Status)})
		} else if differs := k.differs(o.Status, o.Header, o.Answer); differs != "" {
			found = append(found, Violation{"I3", nameOf(o).String(),
				fmt.Sprintf("client %d was told otherwise than is stored: %s", o.Client, differs)})
		}
	}
	return found
}

func nameOf(o history.Operation) keyName { return keyName{o.Tenant, o.Route, o.Key} }

func isFinal(o history.Operation) bool {
	return keyed(o) && o.Answered() && (o.Status == http.StatusCreated || o.Status == http.StatusPaymentRequired)
}

// differs names the first thing in which an answer is not the stored one.
func (k *keyRow) differs(status int, header http.Header, body []byte) string {
	switch {
	case k.ResponseStatus == nil || k.ResponseContentType == nil || k.ResponseLocation == nil:
		return "the key is " + k.Status + " without a response"
	case int(*k.ResponseStatus) != status:
		return fmt.Sprintf("status %d, stored is %d", status, *k.ResponseStatus)
	case *k.ResponseContentType != header.Get("Content-Type"):
		return fmt.Sprintf("content type %q, stored is %q", header.Get("Content-Type"), *k.ResponseContentType)
	case *k.ResponseLocation != header.Get("Location"):
		return fmt.Sprintf("location %q, stored is %q", header.Get("Location"), *k.ResponseLocation)
	case !bytes.Equal(k.ResponseBody, body):
		return fmt.Sprintf("%q, stored is %q", body, k.ResponseBody)
	}
	return ""
}

// replays is I3 of the present: each completed key that the clients have used is asked for once more, at each API in
// turn, and must answer what is stored. A completed key is never executed by that.
func replays(ctx context.Context, e Evidence, w world) ([]Violation, error) {
	var found []Violation
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(inFlight)
	for turn, asked := range w.completed(e) {
		group.Go(func() error {
			v, err := e.replay(ctx, base(e.APIs[turn%len(e.APIs)]), w, asked)
			if v != nil {
				mu.Lock()
				defer mu.Unlock()
				found = append(found, *v)
			}
			return err
		})
	}
	return found, group.Wait()
}

// completed lists, for each completed key that can be asked for, one operation of each intent that it was used with.
func (w world) completed(e Evidence) [][]history.Operation {
	if len(e.APIs) == 0 {
		return nil
	}
	at := map[keyName]int{}
	var all [][]history.Operation
	for _, o := range e.History {
		name := nameOf(o)
		k := w.books.keys[name]
		if k == nil || k.Status != "completed" || w.books.subjects[k.Subject] == nil || e.APIKeys[o.Tenant] == "" {
			continue
		}
		i, seen := at[name]
		if !seen {
			i, all = len(all), append(all, nil)
			at[name] = i
		}
		if !slices.ContainsFunc(all[i], func(other history.Operation) bool { return sameIntent(o, other) }) {
			all[i] = append(all[i], o)
		}
	}
	return all
}

// sameIntent: refunds are asked for at one payment, so that equal bodies for two payments would be the same there.
func sameIntent(o, other history.Operation) bool {
	return o.Intent == other.Intent || o.Route == history.RefundsRoute &&
		bytes.Equal(canonical(o.Body), canonical(other.Body))
}

func canonical(body []byte) []byte {
	v := jsontext.Value(slices.Clone(body))
	if v.Canonicalize() != nil {
		return body
	}
	return v
}

// replay asks with each intent that the key was used with: all but one are a mismatch.
func (e Evidence) replay(ctx context.Context, api string, w world, asked []history.Operation) (*Violation, error) {
	name := nameOf(asked[0])
	k := w.books.keys[name]
	path := "/payments"
	if m := w.books.subjects[k.Subject]; m.PaymentID != nil {
		path += "/" + payment.ID(*m.PaymentID).String() + "/refunds"
	}
	answered := 0
	for _, o := range asked {
		r, err := e.post(ctx, api+path, o)
		switch {
		case err != nil:
			return nil, fmt.Errorf("replay %s: %w", name, err)
		case r.status == http.StatusUnprocessableEntity || r.status == http.StatusBadRequest:
			continue
		}
		differs := k.differs(r.status, r.header, r.body)
		switch again := repeated(o, r); {
		case differs != "":
		case r.header.Get("Idempotent-Replayed") != "true":
			differs = "it is not called a replay"
		default:
			differs = cmp.Or(readFace(again).wrong(), k.toldExpiry(again, e.Retention))
		}
		if differs != "" {
			return &Violation{"I3", name.String(), "a replay says otherwise than is stored: " + differs}, nil
		}
		answered++
	}
	switch answered {
	case 0:
		return &Violation{"I3", name.String(),
			"completed, and none of the requests that were sent with it gets the answer"}, nil
	case 1:
		return nil, nil //nolint:nilnil // nothing found
	}
	return &Violation{"I7", name.String(), fmt.Sprintf("%d requests that differ get its answer", answered)}, nil
}

// repeated is an operation with the answer that it has now.
func repeated(o history.Operation, r reply) history.Operation {
	o.Status, o.Header, o.Answer, o.Prefer = r.status, r.header, r.body, ""
	o.Call, o.Return = 0, 1
	return o
}

// post sends an operation again, until it is neither turned away at the door nor met by a store that is away.
func (e Evidence) post(ctx context.Context, address string, o history.Operation) (reply, error) {
	return e.insist(ctx, func() (*http.Request, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(o.Body))
		if err != nil {
			return nil, err
		}
		request.Header.Set("Authorization", "Bearer "+e.APIKeys[o.Tenant])
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Idempotency-Key", o.Key)
		return request, nil
	})
}

// insist asks again while it is told to come later.
func (e Evidence) insist(ctx context.Context, ask func() (*http.Request, error)) (reply, error) {
	for {
		request, err := ask()
		if err != nil {
			return reply{}, err
		}
		r, err := e.do(request)
		if err != nil || (r.status != http.StatusTooManyRequests && r.status != http.StatusServiceUnavailable) {
			return r, err
		}
		seconds, err := strconv.Atoi(r.header.Get("Retry-After"))
		if err != nil {
			return r, fmt.Errorf("%d without Retry-After: %w", r.status, err)
		}
		wait := time.NewTimer(time.Duration(seconds) * time.Second)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return r, ctx.Err()
		}
	}
}

// reply is an answer, read to its end.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (e Evidence) do(request *http.Request) (reply, error) {
	response, err := e.HTTP.Do(request)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, response.Header, body}, err
}

// base is an address without its last slash.
func base(address string) string { return strings.TrimSuffix(address, "/") }
