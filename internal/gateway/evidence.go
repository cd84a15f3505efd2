package gateway

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// AnswerEvidence is an answer of a PSP in the form in which an operator gets it. The body is kept only if it is JSON.
func AnswerEvidence(status int, body []byte) []byte {
	kept := struct {
		Status int            `json:"status"`
		Answer jsontext.Value `json:"answer,omitzero"`
	}{Status: status}
	if Storable(body) {
		kept.Answer = body
	}
	raw, err := json.Marshal(kept)
	if err != nil {
		return nil
	}
	return raw
}

// maxNumber bounds a number that is stored, in characters. PostgreSQL's numeric takes 16 383 digits after the point.
const maxNumber = 1000

// maxNesting bounds the nesting of JSON that is stored. PostgreSQL allows more. But the text is later put into further
// objects, and the JSON writer refuses more than 10 000 levels.
const maxNesting = 1000

// Storable reports whether PostgreSQL's jsonb can store body: it is valid JSON, not nested too deep, without U+0000,
// and without a number outside the range of numeric.
func Storable(body []byte) bool {
	if !jsontext.Value(body).IsValid() || bytes.Contains(body, []byte(`\u0000`)) {
		return false
	}
	d := jsontext.NewDecoder(bytes.NewReader(body))
	for {
		token, err := d.ReadToken()
		if err != nil {
			return true // This is the end of the text, because the text is valid.
		}
		if d.StackDepth() > maxNesting {
			return false
		}
		if token.Kind() == jsontext.KindNumber &&
			(len(token.String()) > maxNumber || strings.ContainsAny(token.String(), "eE")) {
			return false
		}
	}
}

// longestText bounds the text that is kept if it is not Storable, in bytes.
const longestText = 2000

// Beginning is the beginning of body, as text that PostgreSQL can store, for an operator.
func Beginning(body []byte) string {
	return storableText(strings.ToValidUTF8(string(body[:min(len(body), longestText)]), "\uFFFD"))
}
