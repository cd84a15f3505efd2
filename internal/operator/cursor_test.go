package operator

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"payonce/internal/deadletters"
)

// A cursor comes back from a browser. Whatever PostgreSQL would refuse of it must be refused before.
func TestCursorThatNoListHasWrittenIsRefused(t *testing.T) {
	t.Parallel()
	text := func(part byte, at time.Time, id string) string {
		raw := binary.BigEndian.AppendUint64([]byte{part}, uint64(at.UnixMicro()))
		return base64.RawURLEncoding.EncodeToString(append(raw, id...))
	}
	year := func(n int) time.Time { return time.Date(n, 6, 1, 0, 0, 0, 0, time.UTC) }
	good := text(0, year(2026), "id")
	for name, row := range map[string]struct {
		text string
		ok   bool
	}{
		"first part":            {good, true},
		"second part":           {text(1, year(2026), "id"), true},
		"without an id":         {text(0, year(2026), ""), true},
		"the first year":        {text(0, year(1970), "id"), true},
		"the last year":         {text(0, year(9999), "id"), true},
		"the year before":       {text(0, year(1969), "id"), false},
		"the year after":        {text(0, year(10000), "id"), false},
		"a third part":          {text(2, year(2026), "id"), false},
		"an id with a zero":     {text(0, year(2026), "a\x00b"), false},
		"an id that is no text": {text(0, year(2026), "a\xff"), false},
		"too short":             {good[:10], false},
		"nothing":               {"", false},
		"no base64":             {good + "!", false},
		"two lines":             {good + "\n", false},
	} {
		c, err := parseCursor(row.text)
		if row.ok && (err != nil || c.String() != row.text) || !row.ok && !errors.Is(err, errCursorMalformed) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}

// A dead letter has its place by a time and a UUID.
func TestCursorOfAnotherListIsNoPositionOfADeadLetter(t *testing.T) {
	t.Parallel()
	at, id := time.UnixMicro(1_795_000_000_000_001).UTC(), uuid.Max
	for text, want := range map[string]deadletters.Position{
		cursor{false, at, id.String()}.String():                  {Opened: at, ID: id},
		cursor{true, at, id.String()}.String():                   {},
		cursor{false, at, "evt_1"}.String():                      {},
		cursor{false, at, strings.ToUpper(id.String())}.String(): {}, // package uuid reads it
	} {
		got, err := parsePosition(text)
		if got != want || errors.Is(err, errCursorMalformed) != (want.ID == uuid.Nil) {
			t.Errorf("%s is %+v, %v", text, got, err)
		}
	}
}
