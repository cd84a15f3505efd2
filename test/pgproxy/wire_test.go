package pgproxy

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
)

func TestQueriesGoBySqlcNameOrFirstWord(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]string{
		"-- name: ReserveKeys :many\nWITH x": "ReserveKeys",
		"-- name: ExpireLease :execrows\n":   "ExpireLease",
		"-- name: A B :call\nSELECT 1":       "A B",
		"begin":                              "begin",
		"COMMIT; ":                           "COMMIT",
		"\n select 1":                        "select",
		"":                                   "",
	} {
		if got := nameOf(sql); got != want {
			t.Errorf("%q goes by %q, want %q", sql, got, want)
		}
	}
}

func TestStatementAndPortalLeadToTheQuery(t *testing.T) {
	t.Parallel()
	n := newNames(func(string, string) {})
	say := func(kind byte, payload string) []string {
		t.Helper()
		executed, ok := n.follow(message{kind: kind, payload: []byte(payload)})
		if !ok {
			t.Fatalf("%c %q is refused", kind, payload)
		}
		return executed
	}
	say(kindParse, "s1\x00-- name: One :one\nSELECT 1\x00\x00\x00")
	say(kindParse, "s2\x00-- name: Two :one\nSELECT 2\x00\x00\x00")
	say(kindParse, "s3\x00-- name: One Two :call\nSELECT 3\x00\x00\x00")
	say(kindBind, "both\x00s3\x00\x00\x00\x00\x00\x00\x00")
	if got := say(kindExecute, "both\x00\x00\x00\x00\x00"); !slices.Equal(got, []string{"One", "Two"}) {
		t.Errorf("a call of a function executes %q", got)
	}
	say(kindBind, "\x00s1\x00\x00\x00\x00\x00\x00\x00")
	say(kindBind, "p\x00s2\x00\x00\x00\x00\x00\x00\x00")
	for portal, want := range map[string]string{"": "One", "p": "Two"} {
		if got := say(kindExecute, portal+"\x00\x00\x00\x00\x00"); len(got) != 1 || got[0] != want {
			t.Errorf("portal %q executes %q, want %q", portal, got, want)
		}
	}
}

func TestWhatIsNoMessageIsRefused(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]error{
		"S\x00\x00\x00\x04":      nil,
		"S\x00\x00\x00\x03":      errFrame,
		"S\xff\xff\xff\xff":      errFrame,
		"S\x00\x00":              io.ErrUnexpectedEOF,
		"Q\x00\x00\x00\x09SELEC": nil,
		"Q\x00\x00\x00\x09SEL":   io.ErrUnexpectedEOF,
		"":                       io.EOF,
	} {
		m, err := readMessage(bytes.NewReader([]byte(raw)))
		if !errors.Is(err, want) || (err == nil && string(m.raw) != raw) {
			t.Errorf("%q: %v, want %v", raw, err, want)
		}
	}
	for _, m := range []message{
		{kind: kindParse, payload: []byte("s")}, {kind: kindParse, payload: []byte("s\x00SELECT")},
		{kind: kindBind, payload: []byte("p")}, {kind: kindBind, payload: []byte("p\x00s")},
		{kind: kindExecute, payload: []byte("p")}, {kind: kindQuery, payload: []byte("SELECT")},
	} {
		if _, ok := newNames(func(string, string) {}).follow(m); ok {
			t.Errorf("%c %q is taken", m.kind, m.payload)
		}
	}
}
