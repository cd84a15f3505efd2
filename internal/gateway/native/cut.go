package native

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/gateway"
)

// A list is split into its records by quotes and brackets only. A JSON reader would refuse the whole list because of
// one record that has a member twice, or invalid UTF-8, or is nested too deep. Then no later record could be read.
// After the split, parseRecord reads each record strictly. The other members of the list are read strictly, too.

// maxRecord is how much of a record is kept in memory, in bytes. A longer record is skipped.
const maxRecord = 4 << 20

// maxMember bounds a name, and each member of a list other than its records, in bytes.
const maxMember = 64 << 10

var errMalformedList = errors.New("answer malformed")

// piece is the text of one value, as it arrived.
type piece struct {
	raw  []byte    // the value, or its beginning
	rest hash.Hash // SHA-256 of the whole value if raw is only its beginning; otherwise nil
}

// name identifies the value by the hash of its bytes.
func (p piece) name() string {
	sum := sha256.Sum256(p.raw)
	if p.rest != nil {
		sum = [32]byte(p.rest.Sum(nil))
	}
	return "sha256:" + hex.EncodeToString(sum[:])
}

// cutter splits a text into values without interpreting them.
type cutter struct {
	*bufio.Reader
	buffer []byte // the memory of the last piece
}

// cutList calls record with each record in the list's member data, and returns the other members.
func cutList(body io.Reader, record func(piece) error) (map[string]jsontext.Value, error) {
	c := &cutter{Reader: bufio.NewReader(body)}
	members := map[string]jsontext.Value{}
	err := c.object(func(name string) error {
		if _, twice := members[name]; twice {
			return errMalformedList
		}
		if name == "data" {
			members[name] = nil
			return c.items('[', ']', func() error { return c.value(maxRecord, record) })
		}
		return c.value(maxMember, func(p piece) error {
			if p.rest != nil || !jsontext.Value(p.raw).IsValid() {
				return errMalformedList
			}
			members[name] = bytes.Clone(p.raw)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	if _, err := c.next(); !errors.Is(err, io.EOF) {
		return nil, errMalformedList
	}
	return members, nil
}

// idIn is the record's own id, or "" if it cannot be found.
func idIn(raw []byte) (id string) {
	c := &cutter{Reader: bufio.NewReader(bytes.NewReader(raw))}
	// If raw is only the beginning of a record, the reading ends with an error. The id was found before that.
	_ = c.object(func(name string) error {
		return c.value(maxMember, func(p piece) error {
			var text string
			if name == "id" && id == "" && json.Unmarshal(p.raw, &text) == nil && gateway.IsID(text) {
				id = text
			}
			return nil
		})
	})
	return id
}

// object calls member with each name of an object. member must read the value.
func (c *cutter) object(member func(name string) error) error {
	return c.items('{', '}', func() error {
		var name string
		err := c.value(maxMember, func(p piece) error {
			if json.Unmarshal(p.raw, &name) != nil {
				return errMalformedList
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := c.take(':'); err != nil {
			return err
		}
		return member(name)
	})
}

// items calls item for each of the items between two brackets. item must read the item.
func (c *cutter) items(opening, closing byte, item func() error) error {
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
func (c *cutter) take(want byte) error {
	if b, _ := c.next(); b != want {
		return errMalformedList
	}
	_, err := c.Discard(1)
	return err
}

// next returns the next byte that is not a space, without reading it. If there is none, it returns 0 and the error, and
// what reads on fails as well.
func (c *cutter) next() (byte, error) {
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

// value reads one value and calls take with it. It keeps at most keep bytes of the value. The piece is valid until the
// next call.
func (c *cutter) value(keep int, take func(piece) error) error {
	first, _ := c.next()
	if strings.IndexByte(",:]}", first) >= 0 {
		return errMalformedList
	}
	p := piece{raw: c.buffer[:0]}
	var rest *bufio.Writer
	isWord, within := strings.IndexByte(`"{[`, first) < 0, extent{}
	for ended := false; !ended; {
		b, err := c.ReadByte()
		if err != nil {
			return errMalformedList
		}
		if len(p.raw) < keep {
			p.raw = append(p.raw, b)
		} else {
			if rest == nil {
				p.rest = sha256.New()
				rest = bufio.NewWriter(p.rest)
				_, _ = rest.Write(p.raw) // a hash does not fail
			}
			_ = rest.WriteByte(b)
		}
		if ended = within.endsWith(b); isWord {
			// A number or a word ends before the first byte that cannot belong to it.
			following, err := c.Peek(1)
			ended = err != nil || strings.IndexByte(" \t\r\n,:\"{}[]", following[0]) >= 0
		}
	}
	if rest != nil {
		_ = rest.Flush()
	}
	c.buffer = p.raw
	return take(p)
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
