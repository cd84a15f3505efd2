package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// ops is an operator at work, over the operator's own listener.
type ops struct {
	t    testing.TB
	http *http.Client
}

// openOps serves the operator's side of the API. To the document it lives on a port of its own, so the client says that
// one and is connected to ours.
func (w *world) openOps() *ops {
	w.t.Helper()
	server := httptest.NewServer(w.app.Operator())
	w.t.Cleanup(server.Close)
	base := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	}}
	w.t.Cleanup(base.CloseIdleConnections)
	return &ops{t: w.t, http: &http.Client{Transport: checked(w.t, base), Timeout: patience}}
}

// ask sends a request as somebody; "" for nobody.
func (d *ops) ask(method, path, as, body string) reply {
	d.t.Helper()
	r, err := d.try(method, path, as, body)
	if err != nil {
		d.t.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

func (d *ops) try(method, path, as, body string) (reply, error) {
	req, err := http.NewRequestWithContext(context.Background(), method, "http://localhost:8081/operator"+path,
		strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	if as != "" {
		req.Header.Set("Authorization", "Bearer "+as)
	}
	res, err := d.http.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	return reply{status: res.StatusCode, header: res.Header, body: raw}, err
}

// deadLetter is a dead letter as the operator sees it.
type deadLetter struct {
	ID, Kind, Status, Key, PaymentID string
	Version                          int
	KeyStatus, PaymentStatus         string
	Audit                            []struct{ Action, Actor, Outcome, Reason string }
	Timeline                         []struct{ Actor, From, To, Reason string }
}

// find waits for the open dead letter of a kind, about a key if that is given, as the list shows it.
func (d *ops) find(kind, key string) (found deadLetter) {
	d.t.Helper()
	eventually(d.t, "an open dead letter "+kind, func() bool {
		var list struct{ Data []deadLetter }
		d.read(d.ask("GET", "/dead-letters?limit=100", resolvingKey, ""), &list)
		for _, l := range list.Data {
			if l.Kind == kind && (key == "" || l.Key == key) {
				found = l
				return true
			}
		}
		return false
	})
	return found
}

func (d *ops) show(id string) (l deadLetter) {
	d.t.Helper()
	d.read(d.ask("GET", "/dead-letters/"+id, resolvingKey, ""), &l)
	return l
}

func (d *ops) read(r reply, into any) {
	d.t.Helper()
	r.expect(d.t, http.StatusOK, "")
	if err := json.Unmarshal(r.body, into, json.MatchCaseInsensitiveNames(true)); err != nil {
		d.t.Fatalf("%v\n%s", err, r.body)
	}
}

func decision(action string, version int) string {
	return fmt.Sprintf(`{"action":%q,"reason":"the test says so","version":%d}`, action, version)
}

func (d *ops) resolve(l deadLetter, action string) reply {
	d.t.Helper()
	return d.ask("POST", "/dead-letters/"+l.ID+"/resolve", resolvingKey, decision(action, l.Version))
}
