package operator

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"payonce/internal/deadletters"
)

// cursor is a position in a list that is sorted by time. The list may have two parts, such as the keys and then the
// expired keys.
type cursor struct {
	second bool // it is in the second part
	at     time.Time
	id     string // breaks the tie between rows of the same time
}

var errCursorMalformed = errors.New("cursor malformed")

// String returns the form that parseCursor reads: a byte for the part, the time in microseconds, which is PostgreSQL's
// resolution, and the id.
func (c cursor) String() string {
	raw := make([]byte, 1, 1+8+len(c.id))
	if c.second {
		raw[0] = 1
	}
	raw = binary.BigEndian.AppendUint64(raw, uint64(c.at.UnixMicro()))
	return base64.RawURLEncoding.EncodeToString(append(raw, c.id...))
}

// parseCursor reads what String writes, and nothing else.
func parseCursor(s string) (cursor, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(raw) < 1+8 {
		return cursor{}, errCursorMalformed
	}
	c := cursor{second: raw[0] == 1, id: string(raw[9:]),
		at: time.UnixMicro(int64(binary.BigEndian.Uint64(raw[1:9]))).UTC()} //nolint:gosec // the year is checked below
	// PostgreSQL refuses times far outside these years, and a text with a zero byte. Package base64 reads several texts
	// as the same bytes.
	if c.at.Year() < 1970 || c.at.Year() > 9999 || strings.Contains(c.id, "\x00") || !utf8.ValidString(c.id) ||
		c.String() != s {
		return cursor{}, errCursorMalformed
	}
	return c, nil
}

// parseRunCursor is parseCursor for a list of one part whose ids are UUIDs.
func parseRunCursor(s string) (cursor, error) {
	c, err := parseCursor(s)
	if err != nil {
		return cursor{}, err
	}
	// Package uuid reads several forms of an id.
	if id, err := uuid.Parse(c.id); c.second || err != nil || id.String() != c.id {
		return cursor{}, errCursorMalformed
	}
	return c, nil
}

// parsePosition reads the cursor of a list of dead letters.
func parsePosition(s string) (deadletters.Position, error) {
	c, err := parseRunCursor(s)
	id, _ := uuid.Parse(c.id) // parseRunCursor has looked at it.
	return deadletters.Position{Opened: c.at, ID: id}, err
}

// bounds are the times before which the rows of each part are. Without a cursor, both parts begin at their first row.
func (c *cursor) bounds() (first, second time.Time, id string) {
	end := time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	switch {
	case c == nil:
		return end, end, ""
	case c.second:
		return time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), c.at, c.id
	}
	return c.at, end, c.id
}
