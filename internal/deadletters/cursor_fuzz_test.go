package deadletters

import (
	"errors"
	"testing"
)

// Only what String writes is read, and only as a time that PostgreSQL has.
func FuzzParseCursor(f *testing.F) {
	f.Add("AAZC1lVHgAABk0XzbEF8OoCeX1ofDJstRA")
	f.Add("AAZC1lVHgAABk0XzbEF8Op0OWh8MnLLVRAAA")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseCursor(s)
		if err != nil {
			if !errors.Is(err, ErrCursorMalformed) || c != (Cursor{}) {
				t.Fatalf("%q is refused with %v, and %+v", s, err, c)
			}
			return
		}
		if c.String() != s {
			t.Fatalf("%q is read as %q", s, c)
		}
		if y := c.opened.Year(); y < 1970 || y > 9999 {
			t.Fatalf("%q is of the year %d", s, y)
		}
	})
}
