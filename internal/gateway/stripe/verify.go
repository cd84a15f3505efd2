package stripe

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"payonce/internal/gateway"
)

// All facts of this file are from https://docs.stripe.com/webhooks#verify-manually.

const (
	signatureHeader = "Stripe-Signature"
	secretPrefix    = "whsec_"
	minSecret       = 16 // characters after the prefix
	maxSecret       = 128
	// tolerance is the default of Stripe's libraries.
	tolerance = 5 * time.Minute
)

var (
	timestampForm = regexp.MustCompile(`^[1-9][0-9]{0,11}$`)
	eventIDForm   = regexp.MustCompile(`^evt_[A-Za-z0-9_]{1,200}$`)
)

// checkSecrets checks the signing secrets. Its errors repeat nothing of them.
func checkSecrets(secrets []string) error {
	for i, text := range secrets {
		rest, ok := strings.CutPrefix(text, secretPrefix)
		if !ok || !gateway.IsID(rest) || len(rest) < minSecret || len(rest) > maxSecret {
			return fmt.Errorf("webhook secret %d of %d must be %s and %d to %d characters", i+1, len(secrets),
				secretPrefix, minSecret, maxSecret)
		}
	}
	return nil
}

// VerifyEvent checks the signature of a webhook, and then its time. So a webhook with a wrong time is genuine: somebody
// repeats it, or two clocks differ.
func (c *Client) VerifyEvent(header http.Header, body []byte) (gateway.Delivery, error) {
	d, err := c.verify(strings.Join(header.Values(signatureHeader), ","), body)
	if err != nil {
		return gateway.Delivery{}, &gateway.VerifyError{Err: err, Detail: refusalOf(err), Challenge: signatureHeader}
	}
	return d, nil
}

func (c *Client) verify(header string, body []byte) (gateway.Delivery, error) {
	if header == "" {
		return gateway.Delivery{}, fmt.Errorf("%w: %s", gateway.ErrHeaderMissing, signatureHeader)
	}
	s, ok := parseSignature(header)
	if !ok {
		return gateway.Delivery{}, fmt.Errorf("%w: %s", gateway.ErrMalformed, signatureHeader)
	}
	if !c.signed(s, body) {
		return gateway.Delivery{}, gateway.ErrSignature
	}
	if age := c.now().Sub(s.sent); age > tolerance || age < -tolerance {
		return gateway.Delivery{}, gateway.ErrStale
	}
	// The id has no header of its own. The signature covers it, because it covers the body.
	var e struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(body, &e) != nil || !eventIDForm.MatchString(e.ID) {
		return gateway.Delivery{}, fmt.Errorf("%w: id of the event", gateway.ErrMalformed)
	}
	return gateway.Delivery{ID: e.ID, SentAt: s.sent}, nil
}

// signature is the header: t=1492774577,v1=5257…,v1=…,v0=….
type signature struct {
	timestamp string
	sent      time.Time
	v1        []string
}

// parseSignature reads the header. Parts with other names are ignored: Stripe may add them.
func parseSignature(header string) (s signature, ok bool) {
	for part := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "t":
			if s.timestamp != "" {
				return signature{}, false
			}
			s.timestamp = value
		case "v1":
			s.v1 = append(s.v1, value)
		}
	}
	seconds, err := strconv.ParseInt(s.timestamp, 10, 64)
	if err != nil || !timestampForm.MatchString(s.timestamp) || len(s.v1) == 0 {
		return signature{}, false
	}
	s.sent = time.Unix(seconds, 0).UTC()
	return s, true
}

// signed reports whether one of the signatures was made with one of our secrets.
func (c *Client) signed(s signature, body []byte) bool {
	for _, secret := range c.webhookSecrets {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(s.timestamp + "."))
		mac.Write(body)
		want := []byte(hex.EncodeToString(mac.Sum(nil)))
		for _, given := range s.v1 {
			if hmac.Equal([]byte(given), want) {
				return true
			}
		}
	}
	return false
}

// refusalOf tells the sender why a webhook was refused. It does not say which secret was tried.
func refusalOf(err error) string {
	switch {
	case errors.Is(err, gateway.ErrHeaderMissing):
		return "Send the header Stripe-Signature."
	case errors.Is(err, gateway.ErrMalformed):
		return "Stripe-Signature must have one t, in whole seconds since 1970, and at least one v1. The body must be " +
			"the JSON of an event with an id."
	case errors.Is(err, gateway.ErrStale):
		return "The time t in Stripe-Signature is too far from now. Sign each attempt again, with the time of the " +
			"attempt."
	}
	return "No v1 in Stripe-Signature is the signature of this webhook."
}
