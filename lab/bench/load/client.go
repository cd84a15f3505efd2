package load

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// client is one connection and what it counts. It belongs to one goroutine.
type client struct {
	run     *run
	conn    net.Conn
	reader  *bufio.Reader
	forget  func() bool
	secret  []byte // of a webhook
	request []byte

	took    []time.Duration
	answers map[int]int64 // by status
	lost    int64
}

// connect sets the one deadline of the connection: one for each request would cost as much as making the request.
func (r *run) connect() (*client, error) {
	c := &client{run: r, answers: map[int]int64{}}
	if r.plan.Kind == Webhook {
		var err error
		c.secret, err = base64.StdEncoding.DecodeString(strings.TrimPrefix(r.plan.WebhookSecret, "whsec_"))
		if err != nil || len(c.secret) == 0 {
			return nil, errors.New("the webhook secret is not whsec_ and base64") // the error would quote it
		}
	}
	until := r.end.Add(grace)
	var err error
	if c.conn, err = (&net.Dialer{Deadline: until}).DialContext(r.ctx, "tcp", r.plan.Address); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	c.reader = bufio.NewReader(c.conn)
	// When the caller gives up, a read that waits for an answer ends.
	c.forget = context.AfterFunc(r.ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })
	return c, c.conn.SetDeadline(until)
}

func (c *client) close() {
	c.forget()
	_ = c.conn.Close()
}

// work sends until the end. A client that has lost an answer gives up, and so the run is none.
func (c *client) work() {
	for {
		began := time.Now()
		n, ok := c.run.takes(began)
		if !ok {
			return
		}
		if c.run.plan.Kind == Webhook {
			c.webhook(began)
		} else {
			c.payment(n)
		}
		if err := c.ask(); err != nil {
			c.run.quote("no answer: " + err.Error())
			c.lost++
			return
		}
		c.took = append(c.took, time.Since(began))
	}
}

// payment writes a payment's request.
func (c *client) payment(n int64) {
	const body = `{"customerId":"cus-1","amountCents":12000,"currency":"KRW"}`
	p, key := c.run.plan, ""
	if p.Kind == Replay {
		key = p.Keys[int(n)%len(p.Keys)]
	} else {
		key = freshID()
	}
	c.request = fmt.Appendf(c.request[:0], "POST /payments HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"+
		"Idempotency-Key: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		p.Address, p.APIKeys[int(n)%len(p.APIKeys)], key, len(body), body)
}

// webhook signs as Standard Webhooks asks for: an HMAC of id, time and body, joined by full stops.
func (c *client) webhook(at time.Time) {
	id, stamp := freshID(), strconv.FormatInt(at.Unix(), 10)
	body := strings.ReplaceAll(c.run.plan.Body, "{fresh}", id)
	mac := hmac.New(sha256.New, c.secret)
	fmt.Fprintf(mac, "evt_%s.%s.%s", id, stamp, body)
	c.request = fmt.Appendf(c.request[:0], "POST /webhooks/psp HTTP/1.1\r\nHost: %s\r\nwebhook-id: evt_%s\r\n"+
		"webhook-timestamp: %s\r\nwebhook-signature: v1,%s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		c.run.plan.Address, id, stamp, base64.StdEncoding.EncodeToString(mac.Sum(nil)), len(body), body)
}

// freshID is a UUID of version 7, which is what clients are told to use as keys.
func freshID() string { return uuid.Must(uuid.NewV7()).String() }

// ask sends the request, and reads the answer to its end.
func (c *client) ask() error {
	if _, err := c.conn.Write(c.request); err != nil {
		return err
	}
	res, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != c.run.expected {
		body, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10))
		c.run.quote(fmt.Sprintf("status %d: %s %s", res.StatusCode, res.Header.Get("X-Request-Id"), body))
	}
	c.answers[res.StatusCode]++
	_, err = io.Copy(io.Discard, res.Body)
	return err
}
