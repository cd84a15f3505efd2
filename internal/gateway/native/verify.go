package native

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"payonce/internal/gateway"
)

// The forms of the headers that are signed. Neither may have a full stop, because a full stop separates the signed
// parts. Otherwise one signature could be valid for two messages. The timestamp is in seconds since 1970, and has only
// one text.
var (
	idForm        = regexp.MustCompile(`^[!-\-/-~]{1,255}$`)
	timestampForm = regexp.MustCompile(`^[1-9][0-9]{0,11}$`)
)

// The form of a secret: the prefix, and 24 to 64 bytes in base64.
const (
	secretPrefix = "whsec_"
	minSecret    = 24
	maxSecret    = 64
)

// tolerance is how far the clocks of the PSP and of this machine may differ (Standard Webhooks).
const tolerance = 5 * time.Minute

// parseSecret decodes a secret. Its errors say what is wrong, and repeat nothing of the secret.
func parseSecret(text string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	if !ok {
		return nil, errors.New("does not begin with " + secretPrefix)
	}
	secret, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, errors.New("is not base64 behind " + secretPrefix)
	}
	if len(secret) < minSecret || len(secret) > maxSecret {
		return nil, fmt.Errorf("has %d bytes, must have %d to %d", len(secret), minSecret, maxSecret)
	}
	return secret, nil
}

// verify takes the values of webhook-id, webhook-timestamp and webhook-signature, and the body as it arrived. A body
// that was parsed and written again has other bytes. verify returns the time at which this delivery was sent.
//
// The signature is checked before the time. So gateway.ErrStale is only about genuine messages: a replayed one, or
// clocks that differ.
func (c *Client) verify(id, timestamp, signature string, body []byte) (time.Time, error) {
	switch {
	case id == "":
		return time.Time{}, fmt.Errorf("%w: webhook-id", gateway.ErrHeaderMissing)
	case timestamp == "":
		return time.Time{}, fmt.Errorf("%w: webhook-timestamp", gateway.ErrHeaderMissing)
	case signature == "":
		return time.Time{}, fmt.Errorf("%w: webhook-signature", gateway.ErrHeaderMissing)
	case !idForm.MatchString(id):
		return time.Time{}, fmt.Errorf("%w: webhook-id", gateway.ErrMalformed)
	case !timestampForm.MatchString(timestamp):
		return time.Time{}, fmt.Errorf("%w: webhook-timestamp", gateway.ErrMalformed)
	}
	seconds, _ := strconv.ParseInt(timestamp, 10, 64) // Twelve digits always fit.
	if !c.signed(id, timestamp, signature, body) {
		return time.Time{}, gateway.ErrSignature
	}
	sent := time.Unix(seconds, 0).UTC()
	if age := c.now().Sub(sent); age > tolerance || age < -tolerance {
		return time.Time{}, gateway.ErrStale
	}
	return sent, nil
}

// signed reports whether one of the signatures, which are separated by spaces, was made with one of our secrets.
// Signatures of versions other than v1 are ignored. The server's limit for headers bounds the number of signatures.
func (c *Client) signed(id, timestamp, signatures string, body []byte) bool {
	for _, secret := range c.webhookSecrets {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(id + "." + timestamp + "."))
		mac.Write(body)
		want := []byte(base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		for given := range strings.SplitSeq(signatures, " ") {
			// Compare the text, because several base64 texts can decode to the same bytes.
			if text, ok := strings.CutPrefix(given, "v1,"); ok && hmac.Equal([]byte(text), want) {
				return true
			}
		}
	}
	return false
}
