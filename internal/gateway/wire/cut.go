package wire

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/gateway"
)

// A list is split into its records by quotes and brackets only. A JSON reader would refuse the whole list because of
// one record that has a member twice, or invalid UTF-8, or is nested too deep. Then no later record could be read.
// After the split, a dialect reads each record strictly. The other members of the list are read strictly, too.

// maxRaw bounds the part of an unreadable record that is kept, a name, and each other member of a list, in bytes.
const maxRaw = 64 << 10

// ErrMalformedList says that an answer is not the list that was asked for.
var ErrMalformedList = errors.New("answer malformed")

// CutList calls record with the text of each record in the list's member data, and returns the other members.
func CutList(body io.Reader, record func(raw []byte) error) (map[string]jsontext.Value, error) {
	c := cutter{bufio.NewReader(body)}
	members := map[string]jsontext.Value{}
	err := c.object(func(name string) error {
		if _, twice := members[name]; twice {
			return ErrMalformedList
		}
		if name == "data" {
			members[name] = nil
			return c.items('[', ']', func() error {
				raw, err := c.value()
				if err != nil {
					return err
				}
				return record(raw)
			})
		}
		raw, err := c.value()
		members[name] = raw
		if err == nil && (len(raw) > maxRaw || !members[name].IsValid()) {
			return ErrMalformedList
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if _, err := c.next(); !errors.Is(err, io.EOF) {
		return nil, ErrMalformedList
	}
	if _, hasData := members["data"]; !hasData {
		return nil, ErrMalformedList
	}
	return members, nil
}

// Unreadable is a record that cannot be read, and why. kept is its text without secrets.
func Unreadable(raw, kept []byte, reason error) gateway.Unreadable {
	sum := sha256.Sum256(raw)
	return gateway.Unreadable{
		Raw: bytes.Clone(kept[:min(len(kept), maxRaw)]), Name: "sha256:" + hex.EncodeToString(sum[:]),
		ID: TextIn(raw, "id"), Reason: reason.Error(),
	}
}

// TextIn is the first member of a record with this name that has the form of an id, even if the record is otherwise
// malformed. It is "" if there is none.
func TextIn(raw []byte, member string) (text string) {
	c := cutter{bufio.NewReader(bytes.NewReader(raw))}
	// The reading may end early with an error. What was found before that counts.
	_ = c.object(func(name string) error {
		value, err := c.value()
		var s string
		if name == member && text == "" && json.Unmarshal(value, &s) == nil && gateway.IsID(s) {
			text = s
		}
		return err
	})
	return text
}

// cutter splits a text into values without interpreting them.
type cutter struct{ *bufio.Reader }

// object calls member with each name of an object. member must read the value.
func (c cutter) object(member func(name string) error) error {
	return c.items('{', '}', func() error {
		raw, err := c.value()
		if err != nil {
			return err
		}
		var name string
		if len(raw) > maxRaw || json.Unmarshal(raw, &name) != nil {
			return ErrMalformedList
		}
		if err := c.take(':'); err != nil {
			return err
		}
		return member(name)
	})
}

// items calls item for each of the items between two brackets. item must read the item.
func (c cutter) items(opening, closing byte, item func() error) error {
	if err := c.take(opening); err != nil {
		return err
	}
	if b, _ := c.next(); b == closing {
		return c.take(closing)
	}
	for {
		if err := item(); err != nil {
			return err
		}
		if b, _ := c.next(); b == closing {
			return c.take(closing)
		}
		if err := c.take(','); err != nil {
			return err
		}
	}
}

// take reads one byte after spaces. It must be want.
func (c cutter) take(want byte) error {
	if b, _ := c.next(); b != want {
		return ErrMalformedList
	}
	_, err := c.Discard(1)
	return err
}

// next returns the next byte that is not a space, without reading it. If there is none, it returns 0 and the error, and
// what reads on fails as well.
func (c cutter) next() (byte, error) {
	for {
		b, err := c.ReadByte()
		if err != nil {
			return 0, err
		}
		if strings.IndexByte(" \t\r\n", b) < 0 {
			return b, c.UnreadByte()
		}
	}
}

// value reads one value.
func (c cutter) value() (raw []byte, err error) {
	first, _ := c.next()
	if strings.IndexByte(",:]}", first) >= 0 {
		return nil, ErrMalformedList
	}
	isWord, within := strings.IndexByte(`"{[`, first) < 0, extent{}
	for ended := false; !ended; {
		b, err := c.ReadByte()
		if err != nil {
			return nil, ErrMalformedList
		}
		raw = append(raw, b)
		if ended = within.endsWith(b); isWord {
			// A number or a word ends before the first byte that cannot belong to it.
			following, err := c.Peek(1)
			ended = err != nil || strings.IndexByte(" \t\r\n,:\"{}[]", following[0]) >= 0
		}
	}
	return raw, nil
}

// extent finds the end of a string, an object or an array.
type extent struct {
	depth           int
	quoted, escaped bool
}

func (e *extent) endsWith(b byte) bool {
	switch {
	case e.escaped:
		e.escaped = false
	case e.quoted && b == '\\':
		e.escaped = true
	case b == '"':
		e.quoted = !e.quoted
	case e.quoted:
	case b == '{' || b == '[':
		e.depth++
	case b == '}' || b == ']':
		e.depth--
	}
	return e.depth == 0 && !e.quoted
}
