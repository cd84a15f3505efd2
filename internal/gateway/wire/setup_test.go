package wire_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
)

// Every client and server of these tests ends with its test: a connection that the client forgot fails the run.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// patience bounds every wait for an event. Reaching it is a failure, not a measurement.
	patience = time.Minute
	// soon is the deadline of a request that is meant to reach it.
	soon = 150 * time.Millisecond
	// account is the account of all requests but those that say otherwise.
	account = "canary-account"
	// said is what the PSP of these tests answers. No dialect is needed to read it.
	said = `{"id":"canary-answer"}`
)

// testLimits are the defaults, with times that no test meets by accident, however busy its machine is.
func testLimits() gateway.Limits {
	l := gateway.DefaultLimits()
	l.Dial, l.Total, l.Stall = patience, patience, patience
	l.BreakerFailures = 1000
	return l
}

type client struct {
	*wire.Client
	t   *testing.T
	url string
}

func newClient(t *testing.T, url string, edits ...func(*gateway.Limits)) *client {
	t.Helper()
	l := testLimits()
	for _, edit := range edits {
		edit(&l)
	}
	c := &client{t: t, url: url}
	var err error
	if c.Client, err = wire.New("PSP_URL", url, l, time.Now); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func total(d time.Duration) func(*gateway.Limits) {
	return func(l *gateway.Limits) { l.Total = d }
}

// post sends one request that moves money.
func (c *client) post() wire.Reply { return c.postOf(c.t.Context(), account) }

// postOf sends one as a dialect does: with a key, by which the transport would take it for replayable.
func (c *client) postOf(ctx context.Context, account string) wire.Reply {
	return c.checked(c.Send(ctx, account, func(ctx context.Context) (*http.Request, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Base+"/v1/canary",
			bytes.NewReader([]byte("canary-body")))
		if err == nil {
			req.Header.Set("Idempotency-Key", "canary-key-0123456789")
			req.Header.Set("Test-Account", account)
		}
		return req, err
	}))
}

// get builds a request that has no effect.
func (c *client) get(ctx context.Context) (*http.Request, error) {
	return http.NewRequestWithContext(ctx, http.MethodGet, c.Base+"/v1/canary?key=canary", http.NoBody)
}

// read returns the answer to a request that has no effect, of at most so many bytes.
func (c *client) read(most int64) (body string, err error) {
	return c.readOf(c.t.Context(), account, most)
}

func (c *client) readOf(ctx context.Context, account string, most int64) (body string, err error) {
	err = c.Read(ctx, account, c.get, most, func(r io.Reader) error {
		raw, err := io.ReadAll(r)
		body = string(raw)
		return err
	})
	c.checkedError(err)
	return body, err
}

// stream returns the lines of an answer that has no time limit as a whole.
func (c *client) stream(each func(line string)) error {
	return c.streamOf(c.t.Context(), each)
}

func (c *client) streamOf(ctx context.Context, each func(line string)) error {
	err := c.Stream(ctx, account, c.get, func(r io.Reader) error {
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			each(lines.Text())
		}
		return lines.Err()
	})
	c.checkedError(err)
	return err
}

// checked checks that a reply says one thing, and that its reason holds nothing that a log must not.
func (c *client) checked(r wire.Reply) wire.Reply {
	c.t.Helper()
	known := 0
	for _, is := range []bool{r.NotSent != "", r.Lost != "", r.Status != 0} {
		if is {
			known++
		}
	}
	if known != 1 || r.Status == 0 && (r.Body != nil || r.Header != nil) {
		c.t.Errorf("the reply is not one thing: %+v", r)
	}
	c.checkedReason(r.NotSent + r.Lost)
	return r
}

func (c *client) checkedError(err error) {
	c.t.Helper()
	if err != nil {
		c.checkedReason(err.Error())
	}
}

func (c *client) checkedReason(reason string) {
	c.t.Helper()
	host := strings.TrimPrefix(c.url, "http://")
	for _, private := range []string{"canary", host, "127.0.0.1", "http:", "/v1"} {
		if strings.Contains(reason, private) {
			c.t.Errorf("the reason %q holds %q", reason, private)
		}
	}
}

// notSent checks that the PSP has certainly not seen the request.
func notSent(t *testing.T, r wire.Reply, reason string) {
	t.Helper()
	if r.NotSent != reason {
		t.Fatalf("reply %+v, want not sent: %s", r, reason)
	}
}

// lost checks that nothing is known.
func lost(t *testing.T, r wire.Reply, reason string) {
	t.Helper()
	if r.Lost != reason {
		t.Fatalf("reply %+v, want lost: %s", r, reason)
	}
}

func answered(t *testing.T, r wire.Reply, status int) {
	t.Helper()
	if r.Status != status || string(r.Body) != said {
		t.Fatalf("reply %+v, want an answer with %d", r, status)
	}
}

func failed(t *testing.T, err error, reason string) {
	t.Helper()
	if err == nil || err.Error() != reason {
		t.Fatalf("error %v, want: %s", err, reason)
	}
}
