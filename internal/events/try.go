package events

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"payonce/internal/events/internal/dbsqlc"
)

// outcome is what came of one try.
type outcome struct {
	of      dbsqlc.GetDueDeliveriesRow
	status  int32  // of the answer; 0: there was none
	answer  string // the beginning of its body
	problem string // why there was no answer, for operators: it has addresses of our network
	failure string // the same for the merchant, who may have chosen the URL to learn of our network
	gone    bool   // there is nothing to send any more
}

// delivered says that the receiver has the event. A redirect is no success, and is never followed: the merchant has
// registered this URL, and no other.
func (o outcome) delivered() bool { return o.status/100 == 2 }

func (o outcome) failed() bool { return !o.delivered() && !o.gone }

// said is a failure in words for the merchant.
func (o outcome) said() string {
	switch o.status / 100 {
	case 0:
		return o.failure
	case 3:
		return fmt.Sprintf("answered %d: redirects are not followed", o.status)
	}
	return fmt.Sprintf("answered %d", o.status)
}

const (
	userAgent = "Payonce-Webhooks/1"
	// maxAnswer bounds what is read of an answer, and maxShown what is kept of it.
	maxAnswer  = 64 << 10
	maxShown   = 1000 // characters
	maxProblem = 500
)

// try sends an event once. The body and the id are the same each time, and the signature is made new.
func (d *Deliverer) try(ctx context.Context, one delivery) outcome {
	o := outcome{of: one.to}
	if one.event == nil {
		o.gone, o.problem = true, "the event is not kept any more"
		return o
	}
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	r, err := d.request(ctx, one)
	if err == nil {
		var answer *http.Response
		if answer, err = d.via.RoundTrip(r); err == nil {
			defer answer.Body.Close()
			o.status = int32(answer.StatusCode) //nolint:gosec // three digits
			// The status decides. What the body says is for people, so its end may be missing.
			body, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
			o.answer = cut(string(body), maxShown)
			return o
		}
	}
	o.problem, o.failure = cut(err.Error(), maxProblem), failureOf(err)
	if errors.Is(err, context.DeadlineExceeded) {
		o.problem = fmt.Sprintf("no answer within %s", d.Timeout)
		o.failure = o.problem
	}
	return o
}

// errURL says that an endpoint has a URL that the settings do not allow any more.
var errURL = errors.New("the URL is not allowed any more")

// failureOf says why there was no answer, in words for the merchant. A name that only our network knows has an address
// that is refused. Of such a name, the merchant hears the same as of a name that nobody knows.
func failureOf(err error) string {
	_, unknown := errors.AsType[*net.DNSError](err)
	_, refused := errors.AsType[*AddressError](err)
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case unknown, refused:
		return "name not found, or its address is not reachable from the internet"
	case certificate:
		return "certificate refused"
	case errors.Is(err, errURL):
		return errURL.Error()
	}
	return "connection failed"
}

// request is an event, signed as Standard Webhooks asks for it: with the earlier secret, too, while the merchant
// changes from one to the other.
func (d *Deliverer) request(ctx context.Context, one delivery) (*http.Request, error) {
	if err := d.Addresses.CheckURL(one.to.Url); err != nil {
		return nil, fmt.Errorf("%w: %w", errURL, err) // A setting has changed since.
	}
	told := BodyOf(*one.event)
	body, err := told.JSON()
	if err != nil {
		return nil, err
	}
	now := d.Now()
	var signatures []string
	for _, secret := range [][]byte{one.to.Secret, one.to.PreviousSecret} {
		if secret == nil {
			continue
		}
		signature, err := sign(secret, told.ID, now, body)
		if err != nil {
			return nil, err
		}
		signatures = append(signatures, signature)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, one.to.Url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header = headersOf(told.ID, strconv.FormatInt(now.Unix(), 10), strings.Join(signatures, " "))
	return r, nil
}

// headersOf are the headers of a delivery. The last two are made new for each try.
func headersOf(id, timestamp, signature string) http.Header {
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", userAgent)
	h.Set(standardwebhooks.HeaderWebhookID, id)
	h.Set(standardwebhooks.HeaderWebhookTimestamp, timestamp)
	h.Set(standardwebhooks.HeaderWebhookSignature, signature)
	return h
}

func sign(secret []byte, id string, at time.Time, body []byte) (string, error) {
	signer, err := standardwebhooks.NewWebhookRaw(secret)
	if err != nil {
		return "", err
	}
	return signer.Sign(id, at, body)
}

// cut makes a text that the database takes, and no longer than so many characters.
func cut(text string, most int) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most])
	}
	return text
}

// waits are the times from one try of a delivery to the next. The last one repeats.
var waits = [...]time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour}

// waitAfter is the time to the next try, after so many earlier ones. jitter spreads what has failed together.
func waitAfter(attempts int32, jitter float64) time.Duration {
	return spread(waits[min(max(int(attempts), 0), len(waits)-1)], jitter)
}

const longestRest = 5 * time.Minute

// restAfter is how long an endpoint gets nothing after a failure: 1, 2, 4, … seconds.
func restAfter(failures int32, jitter float64) time.Duration {
	rest := longestRest
	if failures < 9 {
		rest = min(rest, time.Second<<max(failures, 0))
	}
	return spread(rest, jitter)
}

// spread shortens a span by up to a fifth.
func spread(span time.Duration, jitter float64) time.Duration {
	return span - time.Duration(jitter*float64(span)/5)
}
