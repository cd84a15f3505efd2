package gateway

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// evidence keeps an answer for an operator, if it is JSON.
func evidence(a answer) []byte {
	kept := struct {
		Status int            `json:"status"`
		Answer jsontext.Value `json:"answer,omitzero"`
	}{Status: a.status}
	if Storable(a.body) {
		kept.Answer = a.body
	}
	raw, err := json.Marshal(kept)
	if err != nil {
		return nil
	}
	return raw
}

// maxNumber bounds a number that is kept, in characters. PostgreSQL's numeric takes 16 383 digits behind the point.
const maxNumber = 1000

// maxNesting bounds how deep what is kept may be nested. PostgreSQL's stack bears more; but what is kept is put into further objects, and at
// 10 000 levels nobody would write it any more.
const maxNesting = 1000

// Storable reports whether PostgreSQL's jsonb takes body: valid JSON, not too deep, without U+0000 and without a number beyond
// the range of numeric.
func Storable(body []byte) bool {
	if !jsontext.Value(body).IsValid() || bytes.Contains(body, []byte(`\u0000`)) {
		return false
	}
	d := jsontext.NewDecoder(bytes.NewReader(body))
	for {
		token, err := d.ReadToken()
		if err != nil {
			return true // its end: it is valid
		}
		if d.StackDepth() > maxNesting {
			return false
		}
		if token.Kind() == jsontext.KindNumber && (len(token.String()) > maxNumber || strings.ContainsAny(token.String(), "eE")) {
			return false
		}
	}
}

// longestText bounds what is kept of what is not Storable, in bytes.
const longestText = 2000

// Beginning is the beginning of body as text that PostgreSQL takes, for an operator to look at.
func Beginning(body []byte) string {
	return storableText(strings.ToValidUTF8(string(body[:min(len(body), longestText)]), "\uFFFD"))
}
