package pgproxy

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// What passes the proxy is what came, to the byte; and the queries that it names are those that another reader of the
// protocol finds.
func FuzzWire(f *testing.F) {
	f.Add(encoded(f, &pgproto3.Parse{Name: "s", Query: "-- name: One :one\nSELECT 1"},
		&pgproto3.Bind{PreparedStatement: "s"}, &pgproto3.Execute{}, &pgproto3.Sync{}))
	f.Add(encoded(f, &pgproto3.Query{String: "begin; "}, &pgproto3.Close{ObjectType: 'S', Name: "s"},
		&pgproto3.Terminate{}))
	f.Add([]byte("Q\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		n := newNames(func(string, string) {})
		theirs := reader{statements: map[string]string{}, portals: map[string]string{}}
		from := bytes.NewReader(stream)
		var passed []byte
		for {
			m, err := readMessage(from)
			if err != nil {
				if errors.Is(err, io.EOF) && len(passed) != len(stream) {
					t.Fatalf("%d bytes of %d are passed on", len(passed), len(stream))
				}
				return
			}
			if passed = append(passed, m.raw...); !bytes.HasPrefix(stream, passed) || m.raw[0] != m.kind ||
				!bytes.Equal(m.raw[5:], m.payload) {
				t.Fatalf("%q is passed on as %q", stream, passed)
			}
			executed, ok := n.follow(m)
			want, understood := theirs.follow(m)
			if !ok || !understood {
				return // the session ends, in ours or in the server
			}
			if len(executed) != len(want) || len(want) == 1 && executed[0] != want[0] {
				t.Fatalf("%q executes %q, want %q", m.raw, executed, want)
			}
		}
	})
}

func encoded(f *testing.F, messages ...pgproto3.FrontendMessage) []byte {
	f.Helper()
	var stream []byte
	for _, m := range messages {
		var err error
		if stream, err = m.Encode(stream); err != nil {
			f.Fatal(err)
		}
	}
	return stream
}

// reader is names by package pgproto3.
type reader struct{ statements, portals map[string]string }

func (r reader) follow(m message) (executed []string, understood bool) {
	switch m.kind {
	case kindParse:
		var p pgproto3.Parse
		if p.Decode(m.payload) != nil {
			return nil, false
		}
		r.statements[p.Name] = nameOf(p.Query)
	case kindBind:
		var b pgproto3.Bind
		if b.Decode(m.payload) != nil {
			return nil, false
		}
		r.portals[b.DestinationPortal] = r.statements[b.PreparedStatement]
	case kindExecute:
		var e pgproto3.Execute
		if e.Decode(m.payload) != nil {
			return nil, false
		}
		return strings.Split(r.portals[e.Portal], " "), true
	case kindQuery:
		var q pgproto3.Query
		if q.Decode(m.payload) != nil || bytes.IndexByte(m.payload, 0) != len(m.payload)-1 {
			return nil, false
		}
		return strings.Split(nameOf(q.String), " "), true
	}
	return nil, true
}
