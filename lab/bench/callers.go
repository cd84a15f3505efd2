package main

import (
	"bufio"
	"context"
	_ "embed" // the callers
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"payonce/lab/program"
)

//go:embed testdata/callers.tsv
var callersData string

// caller is a public client of HTTP, as it was measured: how long it waits before each further request, by what became
// of the one before. A schedule that is over ends the call.
type caller struct {
	name               string
	lost, busy, closed []time.Duration // after no answer, a 409 and a 503
	patience           time.Duration   // for one answer
}

// publicCallers reads the measured callers.
func publicCallers(data string) (all []caller, err error) {
	for line := range strings.Lines(data) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		columns := strings.Split(strings.TrimSpace(line), "\t")
		if len(columns) != 5 { //nolint:mnd // as its heading says
			return nil, fmt.Errorf("caller %q: %d columns", line, len(columns))
		}
		c := caller{name: columns[0]}
		var patience []time.Duration
		var errs [4]error
		c.lost, errs[0] = schedule(columns[1])
		c.busy, errs[1] = schedule(columns[2])
		c.closed, errs[2] = schedule(columns[3])
		patience, errs[3] = schedule(columns[4])
		if err := errors.Join(errs[:]...); err != nil || len(patience) != 1 {
			return nil, fmt.Errorf("caller %s: %w", c.name, err)
		}
		c.patience = patience[0]
		all = append(all, c)
	}
	return all, nil
}

func schedule(column string) (waits []time.Duration, err error) {
	for _, field := range strings.Fields(column) {
		if field == "-" {
			return nil, nil
		}
		seconds, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return nil, err
		}
		waits = append(waits, time.Duration(seconds*float64(time.Second)))
	}
	return waits, nil
}

// breaksAfter is how soon the connection of a first request breaks.
const breaksAfter = 100 * time.Millisecond

// pays sends one payment as the caller does, under one key, and reports whether it is told of its success. The
// connection of the first request breaks.
func (c caller) pays(ctx context.Context, p payer) (told bool, err error) {
	key := uuid.Must(uuid.NewV7()).String()
	for sent := 0; ; sent++ {
		patience := c.patience
		if sent == 0 {
			patience = breaksAfter
		}
		status := p.pay(ctx, key, patience, "")
		waits := c.lost
		switch status {
		case http.StatusCreated:
			return true, nil
		case http.StatusConflict:
			waits = c.busy
		case http.StatusServiceUnavailable:
			waits = c.closed
		case 0:
		default: // the caller takes a 202 for a success, and the payment is not paid
			return false, nil
		}
		if sent >= len(waits) {
			return false, nil
		}
		if !program.Wait(ctx, waits[sent]) {
			return false, context.Cause(ctx)
		}
	}
}

// payer sends payments with a PSP that takes some time.
type payer struct {
	address, apiKey string
	psp             time.Duration
}

// pay sends one request on a connection of its own, and gives the status of the answer, or 0 if there was none in time.
func (p payer) pay(ctx context.Context, key string, patience time.Duration, headers string) (status int) {
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp", p.address)
	if err != nil {
		return 0
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	status, _ = p.ask(conn, key, headers)
	return status
}

// ask sends one request on a connection, and reads the answer.
func (p payer) ask(conn net.Conn, key, headers string) (status int, body string) {
	body = fmt.Sprintf(`{"customerId":"cus-1","amountCents":12000,"currency":"KRW","paymentMethod":"pm_after_%s"}`, p.psp)
	return answerTo(conn, fmt.Sprintf("POST /payments HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nIdempotency-Key: %s\r\n"+
		"%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", p.address, p.apiKey, key, headers, len(body), body))
}

// get sends a request that is refused at once.
func (p payer) get(conn net.Conn) (status int, body string) {
	return answerTo(conn, "GET /payments HTTP/1.1\r\nHost: "+p.address+"\r\n\r\n")
}

// churn has the collector run: until then, a process keeps the stacks of goroutines that have ended.
func churn(ctx context.Context, p payer) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.address)
	if err != nil {
		return err
	}
	defer c.Close()
	for range churned {
		if status, body := p.get(c); status != http.StatusUnauthorized {
			return fmt.Errorf("answered %d: %s", status, body)
		}
	}
	return nil
}

func answerTo(conn net.Conn, request string) (status int, body string) {
	if _, err := io.WriteString(conn, request); err != nil {
		return 0, err.Error()
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(raw)
}

// toldOf has all callers pay at once, and counts those that are told of the success.
func toldOf(ctx context.Context, all []caller, p payer) (told int, err error) {
	var calling sync.WaitGroup
	var count atomic.Int64
	failed := make(chan error, len(all))
	for _, c := range all {
		calling.Go(func() {
			ok, err := c.pays(ctx, p)
			if ok {
				count.Add(1)
			}
			failed <- err
		})
	}
	calling.Wait()
	close(failed)
	for e := range failed {
		err = errors.Join(err, e)
	}
	return int(count.Load()), err
}
