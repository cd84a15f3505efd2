package merchant

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"payonce/lab/chaos/plan"
	"payonce/lab/chaos/tally"
)

// fake is an API that makes endpoints and has a feed.
type fake struct {
	t      *testing.T
	m      *Merchants
	key    []byte
	made   atomic.Int64
	turned atomic.Int64 // requests that were turned away

	mu    sync.Mutex
	pages map[string]string // of the feed, by cursor
}

func setup(t *testing.T) *fake {
	t.Helper()
	f := &fake{t: t, key: bytes.Repeat([]byte{7}, 32), pages: map[string]string{}}
	api := httptest.NewServer(f)
	t.Cleanup(api.Close)
	m, err := Open(t.Context(), Options{
		Plan: plan.Plan{Seed: 3}, APIs: []string{api.Listener.Addr().String()}, Keys: map[string]string{"acme": "k"},
		Tally: tally.New(),
	}, "acme")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	f.m = m
	return f
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case f.turned.Add(1) == 1:
		w.WriteHeader(http.StatusTooManyRequests) // ask again
	case r.Method == http.MethodPost:
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"endpointId":"we_%d","secret":"whsec_%s"}`, f.made.Add(1),
			base64.StdEncoding.EncodeToString(f.key))
	case r.Method == http.MethodDelete:
		w.WriteHeader(map[bool]int{true: http.StatusNoContent, false: http.StatusConflict}[r.URL.Path ==
			"/webhook-endpoints/we_3"])
	default:
		f.mu.Lock()
		defer f.mu.Unlock()
		fmt.Fprint(w, f.pages[r.URL.Query().Get("after")])
	}
}

func event(n int) string {
	return fmt.Sprintf(`{"id":"evt_%d","type":"payment.succeeded","version":%d,"data":{"payment":{"paymentId":"pay_1"}}}`,
		n, n)
}

// send delivers an event once, and returns the status, or 0 if there was no whole answer.
func (f *fake) send(to *endpoint, n int, key []byte) int {
	f.t.Helper()
	signer, err := standardwebhooks.NewWebhookRaw(key)
	if err != nil {
		f.t.Fatal(err)
	}
	id, now, body := fmt.Sprintf("evt_%d", n), time.Now(), event(n)
	signature, err := signer.Sign(id, now, []byte(body))
	if err != nil {
		f.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, to.server.URL, bytes.NewBufferString(body))
	if err != nil {
		f.t.Fatal(err)
	}
	r.Header.Set("webhook-id", id)
	r.Header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
	r.Header.Set("webhook-signature", signature)
	ctx, cancel := context.WithTimeout(f.t.Context(), 2*slow)
	defer cancel()
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r.WithContext(ctx)) // follows no redirect
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	return response.StatusCode
}

func TestEndpointSlipsInEveryWayAndIsToldAllTheSame(t *testing.T) {
	t.Parallel()
	f := setup(t)
	to := f.m.all[1]
	const events = 60
	for n := 1; n <= events; n++ {
		if status := f.send(to, n, f.key); status != http.StatusNoContent {
			status = f.send(to, n, f.key) // No event slips twice.
			if status != http.StatusNoContent {
				t.Errorf("event %d is answered %d the second time", n, status)
			}
		}
	}
	for _, slip := range plan.Slips() {
		if f.m.Tally.Of("endpoint", string(slip)) == 0 {
			t.Errorf("it never %s", slip)
		}
	}
	taken := map[string]bool{}
	for _, n := range f.m.Heard()[0].Endpoints[Slipping] {
		taken[n.ID] = taken[n.ID] || n.Taken
	}
	for n := 1; n <= events; n++ {
		if !taken[fmt.Sprintf("evt_%d", n)] {
			t.Errorf("event %d was not taken", n)
		}
	}
	if forged := f.m.Heard()[0].Forged; len(forged) > 0 {
		t.Errorf("not taken for genuine: %v", forged)
	}
}

func TestForgedEventIsNotHeard(t *testing.T) {
	t.Parallel()
	f := setup(t)
	status := f.send(f.m.all[0], 1, bytes.Repeat([]byte{8}, 32))
	heard := f.m.Heard()[0]
	if status != http.StatusBadRequest || len(heard.Endpoints[Good]) != 0 || len(heard.Forged) != 1 {
		t.Errorf("answered %d, heard %+v", status, heard)
	}
}

func TestCalmDeletesWhatAlwaysFails(t *testing.T) {
	t.Parallel()
	f := setup(t)
	if status := f.send(f.m.all[2], 1, f.key); status != http.StatusInternalServerError {
		t.Errorf("answered %d", status)
	}
	if err := f.m.Calm(t.Context()); err != nil {
		t.Error(err)
	}
	if heard := f.m.Heard()[0].Endpoints; len(heard) != 2 {
		t.Errorf("heard %v", heard)
	}
}

func TestReaderGoesOnWhereItHasEnded(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.pages[""] = `{"data":[` + event(1) + `],"hasMore":true,"nextCursor":"a"}`
	f.pages["a"] = `{"data":[` + event(2) + `],"hasMore":false,"nextCursor":"b"}`
	f.pages["b"] = `{"data":[],"hasMore":false,"nextCursor":"b"}`
	for range 2 {
		if err := f.m.ReadToEnd(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if read := f.m.Heard()[0].Followed; len(read) != 2 || read[0].ID != "evt_1" || read[1].ID != "evt_2" {
		t.Errorf("read %v", read)
	}
}
