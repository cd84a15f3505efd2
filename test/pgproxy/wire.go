package pgproxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
)

// The types of message that we look at. The same byte may mean something else in the other direction:
// kindReadyForQuery is the server's, all others are the client's.
const (
	kindParse    = 'P'
	kindBind     = 'B'
	kindDescribe = 'D'
	kindExecute  = 'E'
	kindClose    = 'C'
	kindSync     = 'S'
	kindQuery    = 'Q'

	kindReadyForQuery  = 'Z'
	kindBackendKeyData = 'K'
)

// maxMessage bounds a message, in bytes. No test of ours comes near.
const maxMessage = 64 << 20

var errFrame = errors.New("not a message of the protocol")

// message is a type byte, the length of all that follows it in four bytes, and a payload.
type message struct {
	kind    byte
	raw     []byte
	payload []byte
}

func readMessage(from io.Reader) (message, error) {
	raw, err := readFramed(from, 1)
	if err != nil {
		return message{}, err
	}
	return message{kind: raw[0], raw: raw, payload: raw[5:]}, nil
}

// readFramed reads a message whose length stands behind the given number of bytes.
func readFramed(from io.Reader, before int) ([]byte, error) {
	head := make([]byte, before+4)
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[before:]) // counts itself
	if length < 4 || length > maxMessage {
		return nil, errFrame
	}
	raw := make([]byte, before+int(length))
	copy(raw, head)
	_, err := io.ReadFull(from, raw[len(head):])
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // cut right behind its head, it is not the end between two messages
	}
	if err != nil {
		return nil, err
	}
	return raw, nil
}

// names follows a client's prepared statements and portals, to tell which query an Execute is about.
type names struct {
	statements map[string]string // prepared statement → query
	portals    map[string]string // portal → query
	learned    func(query, sql string)
}

func newNames(learned func(query, sql string)) *names {
	return &names{statements: map[string]string{}, portals: map[string]string{}, learned: learned}
}

// follow notes what a message says, and returns the queries that it executes.
func (n *names) follow(m message) (executed []string, ok bool) {
	// Each of these begins with one or two strings that end in a zero byte.
	first, rest, ok := bytes.Cut(m.payload, []byte{0})
	second, _, two := bytes.Cut(rest, []byte{0})
	switch m.kind {
	case kindParse: // statement, SQL
		query := nameOf(string(second))
		n.statements[string(first)] = query
		n.learned(query, string(second))
		return nil, ok && two
	case kindBind: // portal, statement
		n.portals[string(first)] = n.statements[string(second)]
		return nil, ok && two
	case kindExecute: // portal
		return strings.Split(n.portals[string(first)], " "), ok
	case kindQuery: // SQL
		return strings.Split(nameOf(string(first)), " "), ok
	}
	return nil, true
}

// nameOf reads sqlc's comment, "-- name: ReserveKeys :many", or takes the first word. A call of a function that runs
// several queries has all their names: "-- name: ReserveKeys BeginPayments :call".
func nameOf(sql string) string {
	if named, ok := strings.CutPrefix(sql, "-- name: "); ok {
		if all, _, called := strings.Cut(named, " :call\n"); called {
			return all
		}
		sql = named
	}
	if words := strings.Fields(sql); len(words) > 0 {
		return strings.TrimSuffix(words[0], ";")
	}
	return ""
}
