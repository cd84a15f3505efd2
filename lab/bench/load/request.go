package load

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The places of a template, which a request fills in.
const (
	freshMark     = "{fresh}"
	keyMark       = "{key}"
	timeMark      = "{time}"
	signatureMark = "{signature}"
)

const (
	webhookIDPrefix = "evt_"
	timeLength      = 10 // digits of a Unix time, until the year 2286
	signatureLength = 44 // a SHA-256 in base64
)

// template is a request with places to fill in, each of which has a fixed length: a request differs from the one before
// in these bytes alone.
type template struct {
	text             []byte
	fresh, key       []int // where each of the places begins
	stamp, signature int   // of a webhook
	body             int
	secret           []byte
}

// newTemplate writes the request of a plan. Keys have keyLength bytes.
func newTemplate(p Plan, keyLength int) (*template, error) {
	method, path, body := "POST", "/payments", defaultBody
	lines := []string{"Host: " + p.Address}
	if p.APIKey != "" {
		lines = append(lines, "Authorization: Bearer "+p.APIKey)
	}
	t := &template{}
	switch p.Kind {
	case New, Same, Apart:
		lines = append(lines, "Idempotency-Key: "+freshMark)
	case Replay:
		lines = append(lines, "Idempotency-Key: "+keyMark)
	case Webhook:
		path = "/webhooks/psp"
		lines = append(lines, "webhook-id: "+webhookIDPrefix+freshMark, "webhook-timestamp: "+timeMark,
			"webhook-signature: v1,"+signatureMark)
		var err error
		if t.secret, err = webhookSecret(p.WebhookSecret); err != nil {
			return nil, err
		}
	case Get:
		method, body = "GET", ""
	}
	if p.Path != "" {
		path = p.Path
	}
	if p.Body != "" {
		body = p.Body
	}
	lines = append(lines, p.Header...)
	if body != "" {
		length := len((&template{}).expand(body, keyLength).text)
		lines = append(lines, "Content-Type: application/json", "Content-Length: "+strconv.Itoa(length))
	}
	head := method + " " + path + " HTTP/1.1\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n"
	t.expand(head, keyLength)
	t.body = len(t.text)
	t.expand(body, keyLength)
	if len(t.key) > 0 && keyLength == 0 {
		return nil, errors.New("there are no keys for {key}")
	}
	return t, nil
}

func webhookSecret(text string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(text, "whsec_")
	secret, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(secret) == 0 {
		return nil, errors.New("webhookSecret is not whsec_ and base64") // the error would quote it
	}
	return secret, nil
}

// expand appends text, with room in place of each mark, and notes where that is.
func (t *template) expand(text string, keyLength int) *template {
	for text != "" {
		mark, room := "", 0
		at := len(text)
		for name, length := range map[string]int{
			freshMark: idLength, keyMark: keyLength, timeMark: timeLength, signatureMark: signatureLength,
		} {
			if found := strings.Index(text, name); found >= 0 && found < at {
				at, mark, room = found, name, length
			}
		}
		t.text = append(t.text, text[:at]...)
		switch begin := len(t.text); mark {
		case freshMark:
			t.fresh = append(t.fresh, begin)
		case keyMark:
			t.key = append(t.key, begin)
		case timeMark:
			t.stamp = begin
		case signatureMark:
			t.signature = begin
		}
		t.text = append(t.text, make([]byte, room)...)
		text = text[at+len(mark):]
	}
	return t
}

// request is one client's copy of a template.
type request struct {
	template
	ids ids

	// Of a webhook. What is handed to a hash is kept here, or it would be allocated.
	mac  hash.Hash
	stop [1]byte
	sum  [sha256.Size]byte
}

func (t *template) request() *request {
	r := &request{template: *t, ids: newIDs(), stop: [1]byte{'.'}}
	r.text = slices.Clone(t.text)
	if t.secret != nil {
		r.mac = hmac.New(sha256.New, t.secret)
	}
	return r
}

// renew makes the next request of it: with a fresh id, this key, and signed where it has to be.
func (r *request) renew(at time.Time, key string) {
	for i, place := range r.fresh {
		if i == 0 {
			r.ids.write(r.text[place:place+idLength], at)
			continue
		}
		copy(r.text[place:place+idLength], r.text[r.fresh[0]:])
	}
	for _, place := range r.key {
		copy(r.text[place:place+len(key)], key)
	}
	if r.mac != nil {
		r.sign(at)
	}
}

// borrow takes over the fresh id of another request of the same template: they race for one key.
func (r *request) borrow(other *request) {
	for _, place := range r.fresh {
		copy(r.text[place:place+idLength], other.text[place:])
	}
}

// sign does what Standard Webhooks asks for: an HMAC of id, time and body, joined by full stops.
func (r *request) sign(at time.Time) {
	stamp := r.text[r.stamp : r.stamp+timeLength]
	strconv.AppendInt(stamp[:0], at.Unix(), 10)
	id := r.text[r.fresh[0]-len(webhookIDPrefix) : r.fresh[0]+idLength]
	r.mac.Reset()
	r.mac.Write(id)
	r.mac.Write(r.stop[:])
	r.mac.Write(stamp)
	r.mac.Write(r.stop[:])
	r.mac.Write(r.text[r.body:])
	base64.StdEncoding.Encode(r.text[r.signature:r.signature+signatureLength], r.mac.Sum(r.sum[:0]))
}

// keyLengthOf is the one length that all keys have.
func keyLengthOf(keys []string) (int, error) {
	for _, key := range keys {
		if key == "" || len(key) != len(keys[0]) {
			return 0, fmt.Errorf("keyList has keys of %d and of %d bytes, must have one length", len(keys[0]), len(key))
		}
	}
	if len(keys) == 0 {
		return 0, nil
	}
	return len(keys[0]), nil
}
