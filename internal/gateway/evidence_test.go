package gateway_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"payonce/internal/gateway"
)

func TestEvidenceOfAnAnswerHasItsBodyIfTheDatabaseCanStoreIt(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"error":{"code":"x"}}`: `{"status":422,"answer":{"error":{"code":"x"}}}`,
		`null`:                   `{"status":422,"answer":null}`,
		``:                       `{"status":422}`,
		`<html>`:                 `{"status":422}`,
		"\"\xff\"":               `{"status":422}`,
		`"a\u0000b"`:             `{"status":422}`,
		`1e200000`:               `{"status":422}`,
	} {
		if got := string(gateway.AnswerEvidence(422, []byte(body))); got != want {
			t.Errorf("%q is kept as %s, want %s", body, got, want)
		}
	}
}

// Without the bounds, PostgreSQL or the JSON writer refuses the evidence. Then the dead letter could not be written.
func TestStorableJSONIsBounded(t *testing.T) {
	t.Parallel()
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for body, want := range map[string]bool{
		`{"amount":-12.5}`: true, `{"place":"Essen"}`: true, `1E2`: false, `1e-400`: false,
		strings.Repeat("7", 1000): true, strings.Repeat("7", 1001): false, `"` + strings.Repeat("7", 1001) + `"`: true,
		nested(1000): true, nested(1001): false,
	} {
		if gateway.Storable([]byte(body)) != want {
			t.Errorf("%.20s of %d bytes: storable is %t", body, len(body), !want)
		}
	}
}

// What cannot be stored as JSON is shown as text: its beginning, without what the database does not take.
func TestBeginningIsTextThatTheDatabaseTakes(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"": "", "<html>": "<html>", "a\x00b": "a\uFFFDb", "a\xffb": "a\uFFFDb", "💸": "💸",
		strings.Repeat("x", 2001):       strings.Repeat("x", 2000),
		strings.Repeat("x", 1999) + "💸": strings.Repeat("x", 1999) + "\uFFFD", // cut in the character
	} {
		got := gateway.Beginning([]byte(body))
		if got != want || !utf8.ValidString(got) {
			t.Errorf("the beginning of %.20q is %.20q", body, got)
		}
	}
}

// What is called storable fits into what an operator is shown, however it is nested; and what is not is not kept.
func FuzzEvidence(f *testing.F) {
	for _, body := range []string{`{"id":"ch_1"}`, `"\u0000"`, `"\\u0000"`, `1e999`, `0.1`, `{"a":1,"a":2}`, `"\ud800"`,
		`[[[]]]`, "\xff"} {
		f.Add(422, []byte(body), 0)
	}
	f.Add(422, []byte("[]"), 9999)
	f.Fuzz(func(t *testing.T, status int, body []byte, depth int) {
		depth &= 1<<14 - 1
		body = slices.Concat(bytes.Repeat([]byte("["), depth), body, bytes.Repeat([]byte("]"), depth))
		var kept struct {
			Status *int
			Answer json.RawMessage
		}
		raw := gateway.AnswerEvidence(status, body)
		if err := json.Unmarshal(raw, &kept); err != nil || kept.Status == nil || *kept.Status != status {
			t.Fatalf("evidence %.200q: %v", raw, err)
		}
		if (kept.Answer != nil) != gateway.Storable(body) || bytes.Contains(raw, []byte(`\u0000`)) {
			t.Fatalf("%.200q is kept as %.200q", body, raw)
		}
	})
}
